"""What all verbs share: help, loading, exit codes, the manners of errors."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import quiver
from quiver import errors
from quiver.cli import exits, output, program
from quiver.cli.program import VERBS, _report

LEAN = """
import sys
from quiver.cli.main import main
code = main({arguments!r})
heavy = {{"pyarrow", "numpy", "rich", "duckdb"}} & set(sys.modules)
sys.exit(f"imports {{heavy}}" if heavy else code)
"""


def python(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, **options
    )


@pytest.mark.parametrize("arguments", [["--help"], ["version"], *([v, "--help"] for v in VERBS)])
def test_help_and_version_import_nothing_heavy(arguments) -> None:
    done = python("-c", LEAN.format(arguments=arguments))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_begins_with_examples_that_are_real_commands(run, verb) -> None:
    arguments = [verb] if verb else []
    result = run(*arguments, "--help")
    first, *rest = result.out.splitlines()
    assert (result.code, first) == (0, "Examples:")
    examples = rest[: rest.index("")]
    assert examples
    for line in examples:
        words = line.split()
        assert words[0] == "quiver"
        assert words[1] == verb or (not verb and words[1] in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_says_in_its_help_what_the_list_of_verbs_says(run, verb) -> None:
    assert VERBS[verb] in run(verb, "--help").out
    assert f"  {verb} " in run("--help").out


def test_the_exit_codes_are_in_the_help(run) -> None:
    text = run("--help").out
    for code, meaning in exits.TABLE.items():
        assert f"{code:5}  {meaning}" in text


@pytest.mark.parametrize(
    "error, code",
    [
        (errors.InputError(""), 2),
        (errors.ConfigError(""), 2),
        (errors.SubscriberError(""), 2),
        (errors.MissingError(""), 3),
        (errors.StorageError("", errno=20), 3),
        (errors.LockedError(""), 4),
        (errors.VersionError(""), 5),
        (errors.CapacityError(""), 6),
        (errors.StorageError("", errno=5), 8),
        (errors.PoisonedError(""), 8),
        (OSError(28, "no space"), 8),
        (errors.DamagedEntry(""), 9),
        (errors.TornEntry(""), 9),
        (errors.ClosedError(""), 70),
        (ValueError(""), 70),
    ],
)
def test_every_error_has_its_exit_code(error, code) -> None:
    assert exits.exit_code(error) == code
    assert code in exits.TABLE


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["inof"], "did you mean 'quiver info'?"),
        (["zzz"], "verbs: ingest, info"),
        (["info"], "Missing argument 'DIR'"),
        (["info", "a", "b"], "unexpected extra argument"),
        (["ls", ".", "rubbish"], "is not one of"),
        (["info", "--nope", "."], "No such option"),
        (["ingest", "x", "--slot"], "requires an argument"),
        (["dump", "x", "--limit", "-1"], "--limit"),
        (["cat", "x"], "--slot"),
    ],
)
def test_wrong_usage_is_two_lines_on_stderr_and_exit_code_2(run, arguments, message) -> None:
    result = run(*arguments)
    assert (result.code, result.out) == (2, "")
    first, hint = result.err.splitlines()
    assert first.startswith("quiver: ")
    assert message in first
    assert hint.startswith("hint: quiver")


def test_without_a_verb_the_help_goes_to_stderr(run) -> None:
    result = run()
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("Examples:")


@pytest.mark.parametrize("verb", ["info", "ls", "check", "finalize"])
def test_a_folder_that_is_none_or_no_store_is_exit_code_3(run, verb, tmp_path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    for place, message in (
        ("gone", "there is no folder"),
        ("empty", "there is no Quiver store"),
        ("file", "is not a folder"),
    ):
        result = run(verb, tmp_path / place)
        assert (result.code, result.out) == (3, "")
        assert message in result.err
        assert "Traceback" not in result.err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["empty", "file"]


@pytest.mark.parametrize(
    "verb", [["info"], ["ls"], ["check"], ["finalize"], ["cat", "--slot", "logs"]]
)
def test_a_newer_format_is_exit_code_5(run, verb, store) -> None:
    manifest = store / "quiver.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 2}))
    result = run(*verb, store)
    assert (result.code, result.out) == (5, "")
    assert result.err == (
        "quiver: the store has format 2, this Quiver reads 1\nhint: install a newer Quiver\n"
    )


@pytest.mark.parametrize("verb", [["info"], ["ls"], ["finalize"], ["cat", "--slot", "logs"]])
def test_a_damaged_manifest_is_exit_code_9(run, verb, store) -> None:
    (store / "quiver.json").write_text("{")
    result = run(*verb, store)
    assert (result.code, result.out) == (9, "")
    assert f"in {store}/quiver.json at byte 0" in result.err
    assert "Traceback" not in result.err


def test_a_store_that_another_process_writes_is_exit_code_4_for_writers_only(run, store) -> None:
    hold = "import quiver, sys; s = quiver.open(sys.argv[1]); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(store)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        holder.stdout.readline()
        table = store.parent / "t.csv"
        table.write_text("n\n1\n")
        for verb in (["finalize"], ["ingest", "--slot", f"logs={table}"]):
            result = run(*verb, store)
            assert (result.code, result.out) == (4, "")
            assert f"written by process {holder.pid}" in result.err
        for verb in ("info", "ls", "check"):
            assert run(verb, store).code == 0
        holder.stdin.close()
        assert holder.wait() == 0


def test_a_traceback_is_shown_only_when_asked_for(run, tmp_path) -> None:
    assert "Traceback" not in run("info", tmp_path).err
    shown = run("info", tmp_path, "--traceback")
    assert shown.code == 3
    assert "Traceback" in shown.err
    assert shown.err.rstrip().splitlines()[-2].startswith("quiver: there is no Quiver store")


def test_a_bug_is_exit_code_70_with_its_traceback(capsys) -> None:
    assert _report(KeyError("lost"), output.Output()) == 70
    text = capsys.readouterr().err
    assert text.startswith("KeyError: 'lost'")
    assert "quiver: unexpected KeyError" in text


def test_an_interrupt_is_exit_code_130(run, monkeypatch, filled) -> None:
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("quiver.cli.inspect.core_numbers", interrupt)
    result = run("info", filled)
    assert result.code == 130
    assert result.err.rstrip().endswith("quiver: interrupted")


def test_both_doors_run_the_same_program() -> None:
    entry = Path(sys.executable).with_name("quiver")
    for command in ([sys.executable, "-m", "quiver"], [str(entry)]):
        done = subprocess.run([*command, "version"], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"quiver {quiver.__version__} ")


@pytest.mark.parametrize("package", ["click", "rich"])
def test_without_the_extra_it_says_what_to_install(package) -> None:
    text = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from quiver.cli.main import main; sys.exit(main(['info', '.']))"
    )
    done = python("-c", text, cwd="/")
    assert "Traceback" not in done.stderr
    assert done.returncode in (2, 3)
    if package == "click":
        assert "pip install 'quiver-store[cli]'" in done.stderr


def test_names_from_a_disk_cannot_steer_the_terminal(run, store) -> None:
    (store / "core_0" / "wal" / "x\x1b[31m\x9b").write_text("")
    (store / b"half-\xff".decode(errors="surrogateescape")).write_text("")
    result = run("check", store)
    assert result.code == 0
    assert "\x1b" not in result.out
    assert r"x\x1b[31m\x9b" in result.out
    assert r"half-\udcff" in result.out


COLOR = re.compile(r"\x1b\[[0-9;]*[39][0-9]m")


def test_colours_and_bars_are_for_terminals_and_can_be_left_out(filled, kit) -> None:
    shown = kit.on_terminal("check", str(filled))
    assert "checking" in shown
    assert "OK: " in shown
    assert COLOR.search(shown)
    assert not COLOR.search(kit.on_terminal("check", str(filled), "--no-color"))
    plain = kit.on_terminal("check", str(filled), NO_COLOR="1")
    assert not COLOR.search(plain)
    assert "checking" in plain
    assert "checking" not in kit.on_terminal("check", str(filled), "--quiet")
    assert "checking" not in kit.on_terminal("check", str(filled), "--json")


def test_a_terminal_gets_lines_of_json_and_never_binary(filled, kit) -> None:
    arguments = ("cat", str(filled), "--slot", "logs", "--limit", "1")
    assert json.loads(kit.on_terminal(*arguments)) == {"n": 0, "s": "a"}
    assert "no text for a terminal" in kit.on_terminal(*arguments, "--format", "arrow")


def test_quiet_and_no_color_are_taken_by_every_verb(run, filled) -> None:
    for verb in VERBS:
        text = run(verb, "--help").out
        assert "--quiet" in text
        assert "--no-color" in text
        assert ("--json" in text) == (verb not in ("cat", "sql", "top"))
    assert run("check", filled, "-q", "--no-color").code == 0


@pytest.mark.parametrize(
    "value, written",
    [
        (1 << 53, 1 << 53),
        ((1 << 53) + 1, "9007199254740993"),
        (-(1 << 60), "-1152921504606846976"),
        (True, True),
        (b"\x00\xff", "00ff"),
        ((1, None), [1, None]),
        ({"a": {1: 2.5}}, {"a": {"1": 2.5}}),
    ],
)
def test_values_become_what_json_keeps_exactly(value, written) -> None:
    assert output.plain(value) == written
    assert type(output.plain(value)) is type(written)


@pytest.mark.parametrize(
    "nanoseconds, text",
    [
        (None, None),
        (0, "1970-01-01T00:00:00.000000000Z"),
        (1_700_000_000_000_000_001, "2023-11-14T22:13:20.000000001Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
        ((1 << 63) - 1, "2262-04-11T23:47:16.854775807Z"),
        (1 << 90, f"{1 << 90} ns since 1970"),
    ],
)
def test_times_are_rfc_3339_in_utc_with_nanoseconds(nanoseconds, text) -> None:
    assert output.format_time(nanoseconds) == text


def test_the_program_lists_the_verbs_that_have_a_file() -> None:
    rooms = {path.stem.rstrip("_") for path in Path(program.__file__).parent.glob("*.py")}
    assert {verb.replace("-", "_") for verb in VERBS} <= rooms
