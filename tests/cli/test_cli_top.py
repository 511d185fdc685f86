"""``top`` as a verb: text, a picture, a real terminal, and what it refuses."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from fcntl import ioctl

import pyarrow as pa
import pytest
from top_kit import words_of

import quiver.cli.live.looking
import quiver.cli.live.words

PATIENCE = 60
SHORT = ("--interval", "100ms")


@pytest.fixture
def two_cores(store):
    with quiver.open(store, core=1, worker=False) as second:
        second.append({"logs": pa.table({"n": [1]})})
        second.subscribe("lake")
    return store


def test_once_is_text(run, two_cores, kit) -> None:
    before = kit.tree_digest(two_cores)
    result = run("top", two_cores, "--once", *SHORT, "--cap", "1MiB")
    assert (result.code, result.err) == (0, "")
    head, rate, used, stations, *rest = result.out.splitlines()
    assert head.startswith(f"{two_cores} · 2 cores · every 100ms · a look takes ")
    assert rate == "in 0 bundles/s  0B/s"
    assert re.fullmatch(r"disk [0-9.]+kB of 1MB, [0-9]%", used)
    assert re.search(r"log .* in 2 files, 2 open · 2 segments .* · 0 dead letters", stations)
    titles = [line for line in rest if line.split(":")[0] in ("cores", "subscribers", "events")]
    assert titles == ["cores", "subscribers", "events: nothing happened yet"]
    found = [line.split()[0] for line in rest[rest.index("subscribers") + 2 : -1]]
    assert found == ["lake", "parquet", "spark"]
    assert kit.tree_digest(two_cores) == before


def test_one_core_is_chosen(run, two_cores) -> None:
    result = run("top", two_cores, "--once", *SHORT, "--core", "1")
    assert " · 1 core · " in result.out
    lines = result.out.splitlines()
    assert lines[lines.index("cores") + 2].split()[0] == "1"
    assert lines[lines.index("cores") + 3] == "subscribers"
    assert ", 0 open · 1 segment " in result.out
    result = run("top", two_cores, "--once", "--core", "7")
    assert (result.code, result.out) == (3, "")
    assert "has no core 7" in result.err
    assert "cores: 0, 1" in result.err


def test_it_looks_for_as_long_as_it_is_told(run, store, monkeypatch) -> None:
    looks = []
    honest = quiver.cli.live.looking.Looker.look

    def look(looker):
        looks.append(looker)
        return honest(looker)

    monkeypatch.setattr("quiver.cli.live.looking.Looker.look", look)
    assert run("top", store, "--once", *SHORT).code == 0
    assert len(looks) == 2
    assert run("top", store, "--once", *SHORT, "--for", "400ms").code == 0
    assert len(looks) == 2 + 5


def test_a_store_that_goes_meanwhile_is_an_error(run, store, monkeypatch) -> None:
    honest = quiver.cli.live.looking.Looker.look

    def look(looker):
        found = honest(looker)
        if store.exists():
            store.rename(store.with_name("away"))
        return found

    monkeypatch.setattr("quiver.cli.live.looking.Looker.look", look)
    result = run("top", store, "--once", *SHORT)
    assert result.code == 8
    assert "parquet" in result.out  # What was seen last.
    assert str(store) in result.err


@pytest.mark.parametrize(
    "arguments, text",
    [
        ((), "top needs a terminal"),
        (("--once", "--svg", "x.svg"), "--once is text and --svg is a picture"),
        (("--for", "3s"), "--for: a screen is looked at until q is pressed"),
        (("--once", "--interval", "1ms"), "--interval: 1ms is too short"),
        (("--once", "--interval", "soon"), "--interval: 'soon' is not a duration"),
        (("--once", "--for", "0s"), "--for: 0s is too short"),
        (("--once", "--cap", "much"), "--cap: 'much' is not a size"),
        (("--svg", "no/such/folder.svg", *SHORT), "cannot write no/such/folder.svg"),
    ],
)
def test_wrong_usage(run, store, arguments, text) -> None:
    result = run("top", store, *arguments)
    assert (result.code, result.out) == (2, "")
    assert text in result.err


@pytest.mark.parametrize("place", ["looking.Looker.look", "words.station_line"])
def test_a_fault_of_ours_is_told_as_one(run, store, tmp_path, monkeypatch, place) -> None:
    def fail(*_):
        raise KeyError("a fault of ours")

    monkeypatch.setattr(f"quiver.cli.live.{place}", fail)
    monkeypatch.setattr("quiver.cli.live.screen.station_line", quiver.cli.live.words.station_line)
    path = tmp_path / "top.svg"
    result = run("top", store, *SHORT, "--svg", path)
    assert result.code == 70
    assert "a fault of ours" in result.err
    assert not path.exists()


@pytest.mark.parametrize("name", ["none", "file", "empty"])
def test_no_store_is_exit_code_3(run, tmp_path, name) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    for option in ("--once", "--svg=x.svg"):
        assert run("top", tmp_path / name, option).code == 3


def test_a_picture_of_the_screen(run, two_cores, tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    path = tmp_path / "top.svg"
    arguments = ("top", two_cores, *SHORT, "--for", "300ms", "--cap", "100kB")
    result = run(*arguments, "--svg", path)
    assert (result.code, result.out, result.err) == (0, "", "")
    svg = path.read_text()
    text = words_of(svg)
    for word in [
        "quiver top",
        f"{two_cores} · 2 cores",
        "in 0 bundles/s",
        "of 100kB",
        " core writer in/s",
        " subscriber bundles",
        " spark ",
        "events: nothing happened yet",
        " q Quit ",
    ]:
        assert word in text
    assert "font-face" not in svg
    assert "cdn" not in svg
    colours = {found.lower() for found in re.findall(r"#[0-9a-fA-F]{6}\b", svg)}
    assert any(len({c[1:3], c[3:5], c[5:7]}) > 1 for c in colours)


def test_without_colours(two_cores, tmp_path) -> None:
    """The frame of a picture has three dots in colours, whatever is in it."""
    frame = {"#ff5f57", "#febc2e", "#28c840", "#c5c8c6"}
    for number, (option, environment) in enumerate([("--no-color", {}), ("-q", {"NO_COLOR": "1"})]):
        path = tmp_path / f"{number}.svg"
        command = [sys.executable, "-m", "quiver", "top", two_cores, *SHORT, option, "--svg", path]
        clean = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        subprocess.run(command, check=True, env=clean | environment)
        colours = {found.lower() for found in re.findall(r"#[0-9a-fA-F]{6}\b", path.read_text())}
        assert not [c for c in colours - frame if len({c[1:3], c[3:5], c[5:7]}) > 1]


def test_without_textual_it_says_what_to_install_and_once_goes_on(store, tmp_path) -> None:
    def top(*arguments: object) -> subprocess.CompletedProcess[str]:
        text = (
            "import sys; sys.modules['textual'] = None\n"
            "from quiver.cli.main import main; sys.exit(main(sys.argv[1:]))"
        )
        command = [sys.executable, "-c", text, "top", str(store), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = top("--svg", tmp_path / "x.svg")
    assert done.returncode == 2
    assert done.stderr.splitlines()[0].endswith("the screen of top needs the package 'textual'")
    assert "pip install 'quiver-store[top]'" in done.stderr
    assert top("--once", *SHORT).returncode == 0


def test_neither_help_nor_once_loads_textual(store) -> None:
    for arguments in (["--help"], ["top", "--help"], ["top", str(store), "--once", *SHORT]):
        text = (
            "import sys\nfrom quiver.cli.main import main\n"
            f"try:\n    main({arguments!r})\nfinally:\n"
            "    print('textual' in sys.modules)"
        )
        command = [sys.executable, "-c", text]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "False"


@contextlib.contextmanager
def terminal(*arguments: object) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run the program on a terminal of 80 columns and 24 lines that is no more than an xterm."""
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    plain = {name: value for name, value in os.environ.items() if name != "COLORTERM"}
    command = [sys.executable, "-m", "quiver", *map(str, arguments)]
    with subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env=plain | {"TERM": "xterm"}
    ) as running:
        os.close(slave)
        try:
            yield running, master
        finally:
            os.close(master)
            running.kill()


def read_until(master: int, word: bytes) -> bytes:
    shown = b""
    while word not in shown:
        ready, _, _ = select.select([master], [], [], PATIENCE)
        assert ready, shown
        shown += os.read(master, 1 << 16)
    return shown


@pytest.mark.parametrize("end", ["q", "\x03", signal.SIGTERM])
def test_on_a_real_terminal_until_somebody_ends_it(two_cores, end) -> None:
    with terminal("top", two_cores, *SHORT) as (running, master):
        shown = read_until(master, b"parquet")
        if isinstance(end, str):
            os.write(master, end.encode())
        else:
            running.send_signal(end)
        shown += read_until(master, b"\x1b[?1049l")  # Back to what was on the screen before.
        assert running.wait(PATIENCE) == 0
    assert b"38;2;" not in shown  # No true colours where they were not offered.


def test_a_terminal_that_is_not_there_to_be_read_is_refused(two_cores) -> None:
    command = [sys.executable, "-m", "quiver", "top", str(two_cores)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert done.returncode == 2
