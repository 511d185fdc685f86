"""``quiver config``, and what ``--config`` and ``--set`` do for verbs that open a store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import quiver
from quiver.cli.config import VERBS
from quiver.config import OPTIONS, Config

FILE = "path: data\nwal:\n  max_size: 4GB\n  flush_interval: 30ms\n"
OPENING = (
    ["ingest", "--slot", "a=t.csv"],
    ["finalize"],
    ["gc"],
    ["subscriber", "add"],
    ["subscriber", "rm"],
    ["subscriber", "reset"],
    ["subscriber", "pause"],
    ["subscriber", "resume"],
    ["subscriber", "rename"],
)


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "q.yaml"
    path.write_text(FILE)
    return path


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_each_begins_with_examples(run, verb) -> None:
    result = run("config", verb, "--help")
    assert (result.code, result.out.splitlines()[0]) == (0, "Examples:")
    for line in result.out.split("\n\n")[0].splitlines()[1:]:
        assert line.startswith(f"  quiver config {verb}")
    assert VERBS[verb] in result.out
    assert f"  {verb} " in run("config", "--help").out


@pytest.mark.parametrize(
    "arguments",
    [
        ["config", "show"],
        ["config", "check", "q.json"],
        ["config", "check", "pipeline.yaml", "--set", "backend_hostname=b"],
    ],
)
def test_looking_at_a_config_imports_nothing_heavy(tmp_path, arguments) -> None:
    (tmp_path / "q.json").write_text("{}")
    (tmp_path / "pipeline.yaml").write_text(SEED.read_text())
    code = (
        "import sys\nfrom quiver.cli.main import main\n"
        f"code = main({arguments!r})\n"
        "sys.exit(str({'pyarrow', 'numpy', 'rich'} & set(sys.modules)) "
        "if {'pyarrow', 'numpy', 'rich'} & set(sys.modules) else code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_show_writes_yaml_that_loads_as_the_same(run, file, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("QUIVER_WAL__MAX_CHUNKS", "7")
    shown = run("config", "show", "q.yaml", "--set", "segment.target_size=1MB")
    assert (shown.code, shown.err) == (0, "")
    lines = {" ".join(line.split()) for line in shown.out.splitlines()}
    assert f'path: "{tmp_path}/data" # q.yaml:1' in lines
    assert "max_size: 4GB # 4,000,000,000 bytes; q.yaml:3" in lines
    assert "flush_interval: 30ms # 30,000,000 nanoseconds; q.yaml:4" in lines
    assert "max_chunks: 7 # 7 files; QUIVER_WAL__MAX_CHUNKS" in lines
    assert "target_size: 1MB # 1,000,000 bytes; --set" in lines
    assert "reclaim: punch # default" in lines
    monkeypatch.delenv("QUIVER_WAL__MAX_CHUNKS")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "dumped.yaml").write_text(shown.out)
    loaded = quiver.load_config("elsewhere/dumped.yaml")
    over = {"wal.max_chunks": 7, "segment.target_size": "1MB"}
    assert loaded.config == quiver.load_config(file, override=over).config
    assert loaded.path == str(tmp_path / "data")


def test_show_without_a_file_shows_the_defaults(run) -> None:
    found = run("config", "show", "--json").document
    assert (found["file"], found["path"]) == (None, None)
    assert [option["key"] for option in found["options"]] == list(OPTIONS)
    assert {(option["origin"], option["place"]) for option in found["options"]} == {
        ("default", None)
    }
    values = {option["key"]: (option["value"], option["unit"]) for option in found["options"]}
    assert values["wal.max_size"] == (Config().wal.max_size, "bytes")
    assert values["wal.durability"] == ("sync", None)


def test_check_says_ok_and_how_much_is_given(run, file) -> None:
    result = run("config", "check", file.name)
    assert (result.code, result.out, result.err) == (0, "OK: 2 options given in q.yaml\n", "")


def test_check_tells_every_problem_where_it_is(run, file, monkeypatch) -> None:
    file.write_text("wal:\n  max_sise: 1\n  durability: fast\nlimits: 3\n")
    monkeypatch.setenv("QUIVER_ACKS__MAX", "1")
    result = run("config", "check", file.name, "--set", "wal.max_chunks=two")
    assert (result.code, result.err) == (2, "")
    assert result.out.splitlines() == [
        "q.yaml:2: wal.max_sise: there is no such option (did you mean wal.max_size?)",
        "q.yaml:4: limits: 3 is not a section of keys and values",
        "q.yaml:3: wal.durability: 'fast' is none of sync, interval, segment",
        "QUIVER_ACKS__MAX: there is no such option (did you mean QUIVER_ACKS__MAX_SIZE?)",
        "--set: wal.max_chunks: 'two' is not a whole number",
        "5 problems in q.yaml",
    ]
    found = run("config", "check", file.name, "--json")
    assert (found.code, found.document["given_count"]) == (2, 0)
    assert found.document["problems"][0] == {
        "message": "q.yaml:2: wal.max_sise: there is no such option",
        "hint": "did you mean wal.max_size?",
    }


def test_what_cannot_be_taken_is_exit_code_2_for_every_verb(run, file, store) -> None:
    file.write_text("wal: {max_sise: 1}\n")
    (file.parent / "t.csv").write_text("n\n1\n")
    before = sorted(path for path in store.rglob("*"))
    for verb in OPENING:
        rest = ["parquet"] if verb[0] == "subscriber" else []
        rest += ["other"] if verb[-1] == "rename" else []
        rest += ["--yes"] if verb[-1] == "rm" else []
        new = ["fresh"] if verb[0] == "ingest" else [str(store)]
        result = run(*verb, *new, *rest, "--config", file)
        assert (result.code, result.out) == (2, ""), verb
        assert "wal.max_sise: there is no such option" in result.err
        assert "hint: did you mean wal.max_size?" in result.err
    assert run("config", "show", file).code == 2
    assert sorted(path for path in store.rglob("*")) == before
    assert not (file.parent / "fresh").exists()


@pytest.mark.parametrize("pair", ["wal.max_size", "=1GB", ""])
def test_set_wants_a_key_and_a_value(run, pair) -> None:
    result = run("config", "show", "--set", pair)
    assert (result.code, result.out) == (2, "")
    assert "is not KEY=VALUE, as wal.max_size=1GB is" in result.err


def test_ingest_obeys_file_environment_and_set_in_this_order(run, file, monkeypatch) -> None:
    (file.parent / "t.csv").write_text("n\n" + "1\n" * 10)
    file.write_text("path: nowhere\nlimits.rows: 5\n")
    ingest = ["ingest", "store", "--slot", "a=t.csv", "--config", "q.yaml"]
    refused = run(*ingest)
    assert refused.code == 2
    assert "rows" in refused.err
    monkeypatch.setenv("QUIVER_LIMITS__ROWS", "7")
    assert run(*ingest).code == 2
    assert run(*ingest, "--set", "limits.rows=9", "--set", "limits.rows=10").code == 0
    assert sorted(path.name for path in file.parent.iterdir()) == ["q.yaml", "store", "t.csv"]


def test_strict_goes_above_all(run, file, store, kit) -> None:
    kit.flip(store / "core_0" / "acks" / "ack.log", 64 * 2 + 9)
    result = run("finalize", store, "--strict", "--set", "recovery.policy=salvage")
    assert result.code == 9
    assert not (store / "core_0" / "quarantine").exists()
    assert run("finalize", store, "--set", "recovery.policy=strict").code == 9
    assert run("finalize", store, "--json").document["cores"][0]["damage"]


SEED = Path(__file__).parents[2] / "examples" / "pipeline.yaml"


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "{}\n"])
def test_of_an_empty_file_it_is_told_what_it_is(run, file, text) -> None:
    file.write_text(text)
    checked, ran = run("config", "check", "q.yaml"), run("run", "q.yaml")
    assert (checked.code, ran.code) == (0, 2)
    assert "nothing is in q.yaml: the config of a store, all of it defaults" in checked.out
    assert "quiver run refuses this" in checked.out
    file.write_text(FILE)
    assert "note:" not in run("config", "check", "q.yaml").out


def test_of_a_pipeline_no_options_of_a_store_are_shown(run) -> None:
    found = run("config", "show", str(SEED))
    assert found.code == 2
    assert "is of a pipeline, and this shows the options of one store" in found.err
    assert f"quiver config check {SEED}" in found.err


def test_a_pipeline_is_checked_as_a_whole(run) -> None:
    found = run("config", "check", SEED)
    assert found.code == 2
    assert "pipeline.yaml:51: {{backend_hostname}} has no value" in found.out
    found = run("config", "check", SEED, "--set", "backend_hostname=b")
    assert found.code == 0, found.out
    assert "OK: 5 nodes" in found.out
    assert "round_robin changes nothing" in found.out
    found = run("config", "check", SEED, "--set", "backend_hostname=b", "--json").document
    assert (found["node_count"], len(found["notes"]), found["problems"]) == (5, 3, [])


def test_a_file_with_the_node_of_a_store_alone_is_one_of_a_store(run, tmp_path) -> None:
    path = tmp_path / "q.yaml"
    path.write_text("nodes: {persistence: {config: {wal: {max_size: 1GB}}}}")
    assert "OK: 1 option given" in run("config", "check", path).out
