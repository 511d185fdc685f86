"""What the judge of killed queues finds in sinks, logs and manifests that are made up."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from bench.kills.log import Log
from bench.ship_kills.judge import gone, judge, judge_queue, leftovers, look
from bench.ship_kills.receiving import open_sink
from bench.ship_kills.setup import Setup, content
from bench.ship_kills.witness import Witness
from quiver.ship.objects import MemoryBucket
from quiver.ship.queue import Item, NewEntry, Queue
from quiver.ship.shipper import ShippedSegment, encode_payload

BUNDLES = {0: 3, 1: 0}
RECORDS = [(0, 0, 0, 0), (0, 0, 0, 1), (1, 0, 1, 2)]
"""Of each its sequence, life, call and number."""


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    """Make a play that came to its end, and in which nothing is wrong."""
    setup = Setup(str(tmp_path), "memory:")
    (tmp_path / "stderr.txt").touch()
    with closing(open_sink(setup.sink)) as sink:
        sink.executemany("INSERT INTO batches VALUES (?, ?)", [(0, "a"), (1, "b"), (2, "c")])
        for sequence, life, call, number in RECORDS:
            row = [sequence, life, call, number, content(life, number)]
            sink.execute("INSERT INTO records VALUES (?, ?, ?, ?, ?)", row)
        sink.execute("INSERT INTO segments VALUES (2, 0, 0)")
        sink.executemany("INSERT INTO bundles VALUES (2, 0, ?)", [(0,), (1,), (2,)])
    producer = Log(setup.log("producer"))
    producer.say("acked", 0, 0, 0, 2, 0)
    producer.say("acked", 0, 1, 2, 1, 1)
    producer.say("unclear", 0, 2, 3, 1)
    Log(setup.log("writer-0")).say("durable", 2)
    Log(setup.log("consumer")).say("error", "UnclearError", "no answer")
    return setup


def change(setup: Setup, statement: str) -> list[str]:
    with closing(open_sink(setup.sink)) as sink:
        sink.execute(statement)
    return judge(setup, BUNDLES).problems


def test_a_play_in_which_nothing_is_wrong_has_no_problem_and_its_figures(setup: Setup) -> None:
    found = judge(setup, BUNDLES)
    assert found.problems == []
    assert (found.acknowledged, found.records, found.unclear) == (3, 3, 1)
    assert (found.bundles, found.segments, found.batches) == (3, 1, 3)
    assert judge(setup).problems == []


@pytest.mark.parametrize(
    "statement, problem",
    [
        ("DELETE FROM records WHERE number = 1", "1 acknowledged records are lost"),
        ("INSERT INTO records SELECT * FROM records WHERE number = 1", "is there twice"),
        ("UPDATE records SET content = x'00' WHERE number = 2", "are not what was sent"),
        ("UPDATE records SET sequence = 9 WHERE number = 2", "came later than was said"),
        ("UPDATE records SET call = 5 WHERE number = 0", "out of order"),
        ("DELETE FROM bundles WHERE number = 1", "1 lost, 0 twice"),
        ("INSERT INTO bundles VALUES (2, 0, 1)", "0 lost, 1 twice"),
        ("INSERT INTO segments VALUES (2, 0, 0)", "out of order or twice"),
        ("INSERT INTO batches VALUES (3, 'a')", "batch is there twice"),
        ("INSERT INTO batches VALUES (1, 'd')", "out of order"),
    ],
)
def test_whatever_is_wrong_in_the_sink_is_found(setup: Setup, statement: str, problem) -> None:
    assert any(problem in each for each in change(setup, statement))


def test_whatever_is_wrong_in_the_logs_is_found(setup: Setup, tmp_path: Path) -> None:
    Log(setup.log("producer")).say("failed", 0, 1, 2, 1, "RemoteError")
    Log(setup.log("consumer")).say("error", "MissingError", "there is no batch")
    Log(setup.log("shipper")).say("wrong", "left out")
    Log(setup.log("writer-0")).say("durable", 3)
    (tmp_path / "stderr.txt").write_text("Traceback")
    problems = " ".join(judge(setup, BUNDLES).problems)
    for problem in ("is there all the same", "MissingError", "left out", "durable", "Traceback"):
        assert problem in problems


def test_what_the_sink_has_not_come_to_is_not_lost_yet(setup: Setup) -> None:
    Log(setup.log("producer")).say("acked", 0, 3, 4, 1, 7)
    assert judge(setup).problems == []
    assert "are lost" in judge(setup, BUNDLES).problems[0]


# the queue ---------------------------------------------------------------------------------------


class Rig:
    """A queue in memory, and a witness of all its states."""

    def __init__(self) -> None:
        self.bucket = MemoryBucket()
        self.queue = Queue(self.bucket)
        self.witness = Witness()
        self.epoch = self.queue.start().epoch

    def put(self, name: str, *segments: int) -> None:
        self.bucket.put(name, b"x")
        payloads = [encode_payload(shipped(number)) for number in segments]
        items = tuple(Item(place, 0, payload) for place, payload in enumerate(payloads))
        self.queue.append(NewEntry(name, items))
        self.see()

    def see(self) -> None:
        self.witness.see(bytes(self.bucket.get("manifest").data))


def shipped(number: int) -> ShippedSegment:
    return ShippedSegment("0" * 32, 0, number, number, number, 1, 1, 10, 0, 0, (1,))


def test_entries_that_are_there_once_are_in_order() -> None:
    rig = Rig()
    rig.put("a", 0, 1)
    rig.put("b")
    rig.queue.dequeue(0, epoch=rig.epoch)
    rig.put("c", 2)
    assert rig.witness.problems == []
    assert rig.witness.locations == {"a", "b", "c"}
    assert rig.witness.repeats == 0
    assert look(rig.queue) == []


def test_an_entry_that_is_there_twice_at_a_time_is_found() -> None:
    rig = Rig()
    rig.put("a")
    rig.put("a")
    assert "is in the queue twice" in rig.witness.problems[0]


def test_an_entry_that_comes_again_when_it_was_gone_is_a_repeat() -> None:
    rig = Rig()
    rig.put("a")
    rig.queue.dequeue(0, epoch=rig.epoch)
    rig.put("a")
    assert rig.witness.problems == []
    assert rig.witness.repeats == 1


def test_a_segment_that_ever_comes_again_is_found() -> None:
    rig = Rig()
    rig.put("a", 0, 1)
    rig.queue.dequeue(0, epoch=rig.epoch)
    rig.put("b", 1)
    assert "segment 1 of core 0 was appended twice" in rig.witness.problems[0]


def test_another_entry_under_the_same_number_is_found() -> None:
    rig, other = Rig(), Rig()
    rig.put("a")
    other.put("b")
    rig.witness.see(bytes(other.bucket.get("manifest").data))
    assert "entry 0 was another one before" in rig.witness.problems[0]
    rig.witness.see(b"torn")
    assert "cannot be read" in rig.witness.problems[1]


def test_a_batch_that_went_too_early_or_is_left_over_is_found() -> None:
    rig = Rig()
    rig.put("a")
    rig.put("b")
    assert leftovers(rig.bucket) == []
    rig.bucket.delete(["a"])
    assert look(rig.queue) == ["a is gone and waits in the queue"]
    assert gone(rig.bucket, rig.witness) == 1
    rig.bucket.put("orphan", b"x")
    assert leftovers(rig.bucket) == ["1 objects are left, as orphan"]


def test_all_that_was_in_the_queue_has_to_be_in_the_sink(setup: Setup) -> None:
    rig = Rig()
    for name in ("a", "b", "c"):
        rig.put(name)
    outcome = judge(setup, BUNDLES)
    assert judge_queue(setup, rig.witness, outcome) == []
    rig.put("d")
    assert "1 batches of the queue are not in the sink, as d" in judge_queue(
        setup, rig.witness, outcome
    )
    change(setup, "INSERT INTO batches VALUES (4, 'e')")
    assert "1 batches of the sink never were in the queue" in judge_queue(
        setup, rig.witness, outcome
    )
