"""``dead-letters``: what was given up is seen, comes to its subscriber again, and is deleted."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import quiver
from quiver.cli.dead_letters import VERBS
from quiver.cli.exits import LOCKED
from quiver.otel import TELEMETRY
from quiver.otel.otlp import from_json
from quiver.otel.pipeline.standard import CODEC
from quiver.otel.signals import Signal


@pytest.fixture
def rejected(tmp_path: Path) -> Path:
    """A store of four bundles that ``b`` has; ``a`` has rejected the last three, two as one run."""
    folder = tmp_path / "store"
    with quiver.open(folder, slots=["logs"], worker=False) as store:
        a, b = store.subscribe("a"), store.subscribe("b")
        for number in range(4):
            store.append({"logs": pa.table({"n": [number, number]})})
        store.finalize()
        with b.poll_run() as run:
            assert len(run) == 4
        a.poll().ack()
        a.poll().reject("too odd")
        a.poll_run().reject("far too odd")
    return folder


def taken(folder: Path, name: str) -> list[int]:
    """Take what a subscriber gets now, to the end."""
    found = []
    with quiver.open(folder, worker=False) as store:
        subscription = store.subscribe(name)
        while (handle := subscription.poll()) is not None:
            found.append(handle["logs"].column("n")[0].as_py())
            handle.ack()
    return found


def left(run, folder: Path) -> list[str]:
    return [each["letter"] for each in run("dead-letters", "ls", folder, "--json").lines]


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_each_begins_with_examples(run, verb) -> None:
    result = run("dead-letters", verb, "--help")
    first, *rest = result.out.splitlines()
    assert (result.code, first) == (0, "Examples:")
    for line in rest[: rest.index("")]:
        assert line.split()[:3] == ["quiver", "dead-letters", verb]
    assert max(map(len, result.out.splitlines())) <= 100


def test_they_are_listed_beside_a_writer_and_nothing_is_changed(run, rejected, kit) -> None:
    before = kit.tree_digest(rejected)
    one, two = run("dead-letters", "ls", rejected, "--json").lines
    assert (one["letter"], one["subscriber"], one["reason"]) == ("0/1/0.1+1", "a", "too odd")
    assert (two["letter"], two["bundle_count"], two["outcome"]) == ("0/1/0.2+2", 2, "rejected")
    assert kit.tree_digest(rejected) == before
    with quiver.open(rejected, worker=False):
        title, head, *rows = run("dead-letters", "ls", rejected).out.splitlines()
    assert (title, head.split()[:3]) == ("dead letters", ["letter", "subscriber", "at"])
    assert [row.split()[:2] for row in rows] == [["0/1/0.1+1", "a"], ["0/1/0.2+2", "a"]]
    assert run("dead-letters", "ls", rejected, "--subscriber", "b").out == "dead letters: none\n"


def test_one_is_shown_with_what_is_in_it(run, rejected) -> None:
    found = run("dead-letters", "show", rejected, "0/1/0.2+2", "--json").document
    assert found["payloads"] == [{"wal_seq": seq, "slot": "logs", "row_count": 2} for seq in (2, 3)]
    assert "far too odd" in run("dead-letters", "show", rejected, "0/1/0.2+2").out
    rows = run("dead-letters", "show", rejected, "0/1/0.2+2", "--slot", "logs").lines
    assert rows == [{"n": 2}, {"n": 2}, {"n": 3}, {"n": 3}]
    result = run("dead-letters", "show", rejected, "0/9/0.2+2")
    assert result.code == 2
    assert "there is no dead letter '0/9/0.2+2'" in result.err


def test_they_come_again_to_who_rejected_them_and_to_nobody_else(run, rejected) -> None:
    with quiver.open(rejected, worker=False) as store:
        store.append({"logs": pa.table({"n": [4]})})
    result = run("dead-letters", "retry", rejected, "a")
    assert result.out == "2 dead letters with 3 bundles will come to a again\n"
    assert left(run, rejected) == []
    assert not list((rejected / "core_0/dead_letters").glob("*/*"))
    assert taken(rejected, "a") == [4, 1, 2, 3]
    assert taken(rejected, "b") == [4]
    assert run("dead-letters", "retry", rejected, "a").out.startswith("0 dead letters")


def test_one_of_them_comes_again_and_the_others_stay(run, rejected) -> None:
    assert run("dead-letters", "retry", rejected, "a", "--letter", "0/1/0.2+2").code == 0
    assert left(run, rejected) == ["0/1/0.1+1"]
    assert (taken(rejected, "a"), taken(rejected, "b")) == ([2, 3], [])


def test_what_is_rejected_again_is_a_letter_again(run, rejected) -> None:
    run("dead-letters", "retry", rejected, "a", "--letter", "0/1/0.1+1")
    with quiver.open(rejected, worker=False) as store:
        store.subscribe("a").poll().reject("still odd")
    reasons = {e["reason"] for e in run("dead-letters", "ls", rejected, "--json").lines}
    assert reasons == {"far too odd", "still odd"}


def test_whoever_was_renamed_has_them_under_the_new_name(run, rejected) -> None:
    run("subscriber", "rename", rejected, "a", "c")
    assert "registered: b, c" in run("dead-letters", "retry", rejected, "a").err
    assert run("dead-letters", "retry", rejected, "c").code == 0
    assert (taken(rejected, "c"), taken(rejected, "b")) == ([1, 2, 3], [])


def test_those_of_one_who_is_gone_come_to_another(run, rejected) -> None:
    run("subscriber", "rm", rejected, "a", "--yes")
    result = run("dead-letters", "retry", rejected, "a")
    assert (result.code, len(left(run, rejected))) == (2, 2)
    assert "no subscriber 'a'" in result.err
    assert run("dead-letters", "retry", rejected, "a", "--to", "b").code == 0
    assert taken(rejected, "b") == [1, 2, 3]


def test_a_damaged_one_stays_and_the_others_come(run, rejected, kit) -> None:
    path = rejected / "core_0/dead_letters/1/0000000000000000.1+1.qseg"
    kit.flip(path, path.stat().st_size // 3)
    result = run("dead-letters", "retry", rejected, "a")
    assert result.code == 0
    assert "0/1/0.1+1 is damaged" in result.err
    assert "1 of 2 dead letters with 3 bundles were taken" in result.err
    assert left(run, rejected) == ["0/1/0.1+1"]
    assert taken(rejected, "a") == [2, 3]


def test_a_reason_that_cannot_be_read_is_told_and_its_letter_left_alone(run, rejected) -> None:
    (rejected / "core_0/dead_letters/1/0000000000000000.1+1.qseg.json").write_text("[")
    (rejected / "core_0/dead_letters/1/0000000000000009.1+1.qseg").write_bytes(b"half")
    result = run("dead-letters", "ls", rejected, "--json")
    assert [each["letter"] for each in result.lines] == ["0/1/0.2+2"]
    assert "the reason of a dead letter cannot be read" in result.err
    assert run("dead-letters", "retry", rejected, "a").code == 0
    assert taken(rejected, "a") == [2, 3]


def test_they_are_deleted_by_who_wants_that(run, rejected) -> None:
    assert run("dead-letters", "rm", rejected, "a").code == 2
    assert len(left(run, rejected)) == 2
    run("dead-letters", "rm", rejected, "a", "--letter", "0/1/0.1+1", "--yes")
    assert left(run, rejected) == ["0/1/0.2+2"]
    result = run("dead-letters", "rm", rejected, "a", "--yes")
    assert result.out == "1 dead letter with 2 bundles of a deleted\n"
    assert left(run, rejected) == []
    assert taken(rejected, "a") == []


@pytest.mark.parametrize("verb", ["retry", "rm"])
def test_a_name_that_nobody_ever_had_is_refused_and_one_without_letters_is_not(
    run, rejected, verb
) -> None:
    result = run("dead-letters", verb, rejected, "upl")
    assert result.code == 2
    assert "no subscriber 'upl'" in result.err
    assert "registered: a, b" in result.err
    assert run("dead-letters", verb, rejected, "b").out.startswith("0 dead letters")


@pytest.mark.parametrize("arguments", [("retry",), ("rm", "--yes")], ids=["retry", "rm"])
def test_a_store_that_somebody_writes_is_left_alone(run, rejected, arguments) -> None:
    verb, *options = arguments
    with quiver.open(rejected, worker=False):
        result = run("dead-letters", verb, rejected, "a", *options)
    assert result.code == LOCKED
    assert "SIGTERM, if it is quiver run" in result.err
    assert len(left(run, rejected)) == 2


def test_telemetry_is_shown_as_otlp(run, tmp_path) -> None:
    text = b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"hi"}}]}]}]}'
    request = from_json(Signal.LOGS, text)
    with quiver.open(tmp_path / "s", slots=TELEMETRY, worker=False) as store:
        out = store.subscribe("out")
        for read in (CODEC.kept, CODEC.decode):
            for batch in read(Signal.LOGS, request):
                store.append(batch.bundle)
        store.finalize()
        out.poll_run().reject("odd")
    lines = run("dead-letters", "show", tmp_path / "s", "0/1/0.0+2", "--otlp").out.splitlines()
    assert [line.encode() for line in lines] == [text, text]


def test_a_letter_that_is_named_twice_comes_once(run, rejected) -> None:
    letters = run("dead-letters", "ls", rejected, "--json").lines
    name = next(each["letter"] for each in letters if each["bundle_count"] == 1)
    named = ("--letter", name, "--letter", name)
    result = run("dead-letters", "retry", rejected, "a", *named, "--json")
    assert result.code == 0
    assert taken(rejected, "a") == [1]
