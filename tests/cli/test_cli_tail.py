"""``tail``: the last rows of a slot, and those that come."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pyarrow as pa
import pytest

import quiver


def command(store, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "quiver", "tail", str(store), "--slot", "logs", *arguments]


def follow(store, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(store, "--follow", *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def put(store, *numbers: int, core: int = 0) -> None:
    with quiver.open(store, core=core, worker=False) as opened:
        for number in numbers:
            opened.append({"logs": pa.table({"n": [number]})})


def lag(run, store, name: str) -> int:
    (item,) = run("lag", store, name, "--json").lines
    return item["open_bundle_count"] - item["unfolded_bundle_count"]


@pytest.mark.parametrize("count, first", [(None, 0), (3, 1), (4, 1), (1, 2)])
def test_the_last_rows(run, filled, kit, count, first) -> None:
    before = kit.tree_digest(filled)
    given = () if count is None else ("-n", count)
    result = run("tail", filled, "--slot", "logs", *given)
    rows = [{"n": n, "s": s} for i in range(3) for n, s in ((i, "a"), (None, "b"))]
    assert result.lines == (rows if count is None else rows[-count:])
    assert kit.tree_digest(filled) == before


def test_rows_from_more_than_one_segment(run, store) -> None:
    put(store, 7, 8)
    rows = run("tail", store, "--slot", "logs", "-n", 4).lines
    assert rows == [{"n": None, "s": "b"}, {"n": 3}, {"n": 7}, {"n": 8}]
    assert run("tail", store, "--slot", "logs", "-n", 0).out == ""


def test_formats(run, store, kit) -> None:
    at = ("tail", store, "--slot", "logs")
    assert run(*at, "-n", 1, "--format", "csv").out == '"n","s"\n,"b"\n'
    assert run(*at, "-n", 1, "--json").lines == [{"n": None, "s": "b"}]
    done = subprocess.run(command(store, "--format", "arrow"), capture_output=True, check=True)
    assert pa.ipc.open_stream(done.stdout).read_all().num_rows == 6
    assert "no text for a terminal" in kit.on_terminal(
        "tail", str(store), "--slot", "logs", "--format", "arrow"
    )
    put(store, 7)
    result = run(*at, "--format", "csv")
    assert result.code == 2
    assert "csv cannot go on: the columns are others now: n" in result.err


@pytest.mark.parametrize(
    "arguments, code, text",
    [
        (("--slot", "nothing"), 2, "nothing"),
        (("--slot", "traces"), 3, "no finalized segment"),
        (("--slot", "logs", "-n", "-1"), 2, "-1"),
        (("--slot", "logs", "-n", "1", "--subscriber", "me"), 2, "no -n"),
        (("--slot", "logs", "--json", "--format", "csv"), 2, "--json is not --format csv"),
        (("--slot", "nothing", "--subscriber", "me"), 2, "nothing"),
        ((), 2, "--slot"),
    ],
)
def test_what_makes_no_sense_is_refused(run, filled, kit, arguments, code, text) -> None:
    before = kit.tree_digest(filled)
    result = run("tail", filled, *arguments)
    assert (result.code, result.out) == (code, "")
    assert text in result.err
    assert kit.tree_digest(filled) == before


def test_no_store_is_exit_code_3(run, tmp_path) -> None:
    for more in ((), ("--follow",), ("--subscriber", "me")):
        assert run("tail", tmp_path / "none", "--slot", "logs", *more).code == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_rows_that_come_are_followed_until_a_signal(store, number) -> None:
    with follow(store, "-n", "1") as running:
        assert json.loads(running.stdout.readline()) == {"n": None, "s": "b"}
        put(store, 7)  # What was in the log becomes a segment too.
        assert json.loads(running.stdout.readline()) == {"n": 3}
        assert json.loads(running.stdout.readline()) == {"n": 7}
        put(store, 8, core=3)
        assert json.loads(running.stdout.readline()) == {"n": 8}
        put(store, 9, core=3)
        assert json.loads(running.stdout.readline()) == {"n": 9}
        running.send_signal(number)
        assert running.stdout.read() == running.stderr.read() == ""
    assert running.returncode == 0


def test_what_is_not_there_yet_is_waited_for(tmp_path) -> None:
    quiver.open(tmp_path / "s", slots=["logs"], worker=False).close()
    with follow(tmp_path / "s", "--format", "csv") as running:
        put(tmp_path / "s", 1)
        assert [running.stdout.readline() for _ in range(2)] == ['"n"\n', "1\n"]
        running.send_signal(signal.SIGINT)
        assert running.stderr.read() == ""
    assert running.returncode == 0


def test_a_reader_who_hangs_up_ends_it(store) -> None:
    for arguments in (("-n", "1"), ("--subscriber", "me")):
        with follow(store, *arguments) as running:
            running.stdout.readline()
            running.stdout.close()
            assert running.stderr.read() == ""  # It ends by itself, with nothing to write.
        assert running.returncode == 0


def test_a_subscriber_gets_each_row_once(run, store) -> None:
    at = ("tail", store, "--slot", "logs", "--subscriber", "me")
    assert len(run(*at).lines) == 6
    assert lag(run, store, "me") == 0
    assert run(*at).out == ""
    put(store, 7)
    assert run(*at).lines == [{"n": 3}, {"n": 7}]
    run("gc", store)
    assert lag(run, store, "me") == 0


def test_a_subscriber_follows_beside_a_writer(run, store) -> None:
    with quiver.open(store) as opened, follow(store, "--subscriber", "me") as running:
        assert [json.loads(running.stdout.readline())["n"] for _ in range(6)][::2] == [0, 1, 2]
        opened.append({"logs": pa.table({"n": [7]})})
        opened.finalize()
        assert [json.loads(running.stdout.readline())["n"] for _ in range(2)] == [3, 7]
        running.send_signal(signal.SIGINT)
        assert running.stderr.read() == ""
    assert running.returncode == 0
    assert lag(run, store, "me") == 0


def test_what_was_not_written_is_not_acked(run, store) -> None:
    put(store, 7)
    result = run("tail", store, "--slot", "logs", "--subscriber", "me", "--format", "csv")
    assert result.code == 2
    assert lag(run, store, "me") == 2  # One of the others has no rows of the slot.
