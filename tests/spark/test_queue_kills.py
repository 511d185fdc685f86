"""Each row of a queue once, whichever step of a query is its last, and of the next one too."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from typing import Any

import pytest
from pretend_spark import Killed, PretendSpark
from spark_queue_kit import Depot, Machine, Record, driver_of, log

from quiver.checkpoint import SYNCED, folder, reconciler
from quiver.errors import ConfigError, FencedError, SourceError
from quiver.ship.objects import MemoryBucket
from quiver.ship.queue import Queue
from quiver.source.stores import Limits
from quiver.spark.queue import acks

TWO = Limits(segments_max=2)
LIVES_MAX = 200


def made() -> list[Record]:
    """Write five segments."""
    machine = Machine()
    return [machine.segment(log(10 * number, 10 * number + 1)) for number in range(5)]


def fill(depot: Depot, records: list[Record]) -> None:
    """Append them, two of them twice: once beside another, once alone."""
    one, two, three, four, five = records
    depot.put(one)
    depot.put(one, two)
    depot.put(three)
    depot.put(two)
    depot.put(four, five)


ROWS = [10 * number + one for number in range(5) for one in (0, 1)]


Make = Callable[..., Callable[[], Any]]


@pytest.fixture(params=["checkpoint known", "as Spark says"])
def make(request, monkeypatch) -> Make:
    """Give what makes drivers over a bucket, with a checkpoint in a folder."""
    monkeypatch.setattr(acks, "sync_everything", lambda: None)
    is_known = request.param == "checkpoint known"

    def maker(bucket: Any, spark: PretendSpark, **changes: Any) -> Callable[[], Any]:
        known = {"checkpoint": str(spark.folder), "sink": SYNCED} if is_known else {}
        return lambda: driver_of(bucket, limits=TWO, **known, **changes)

    return maker


@pytest.mark.parametrize("kills", [1, 2])
def test_each_row_is_there_once_wherever_a_query_is_killed(make: Make, tmp_path, kills) -> None:
    records = made()
    for kill_at in range(1, LIVES_MAX):
        depot = Depot(MemoryBucket("queue"))
        fill(depot, records)
        spark = PretendSpark(tmp_path / str(kill_at))
        drivers = make(depot.bucket, spark)
        was_killed = 0
        for _ in range(kills):
            spark.steps, spark.kill_at = 0, kill_at
            with suppress(Killed):
                spark.live(drivers)
                break
            was_killed += 1
        spark.kill_at = None
        spark.live(drivers)
        assert spark.rows == ROWS, kill_at
        spark.live(drivers)  # There is nothing new, but what is committed is acked.
        assert depot.sequences == []
        if not was_killed:
            assert kill_at > len(spark.sink) * 5
            return
    raise AssertionError("there is no end")


def test_a_query_that_began_with_what_comes_begins_there_again(make: Make, tmp_path) -> None:
    records, old = made(), Machine().segment(log(-1))
    for kill_at in range(1, LIVES_MAX):
        depot = Depot(MemoryBucket("queue"))
        depot.put(old)
        spark = PretendSpark(tmp_path / str(kill_at))
        started = make(depot.bucket, spark, start="latest")()
        assert started.initial()["sequence"] == 1
        lives = chain([started], iter(make(depot.bucket, spark, start="latest"), None))
        fill(depot, records)
        spark.kill_at = kill_at
        was_killed = False
        try:
            spark.live(lambda lives=lives: next(lives))
        except Killed:
            was_killed = True
        # Before a first batch is planned a query has not begun, and begins with what comes then.
        is_begun, spark.kill_at = bool(spark.numbers("offsets")), None
        spark.live(lambda lives=lives: next(lives))
        assert spark.rows == (ROWS if is_begun else []), kill_at
        if not was_killed:
            return
    raise AssertionError("there is no end")


def test_new_segments_between_lives_and_a_second_query_at_once(make: Make, tmp_path) -> None:
    depot = Depot(MemoryBucket("queue"))
    spark, other = PretendSpark(tmp_path / "one"), PretendSpark(tmp_path / "two")
    drivers = make(depot.bucket, spark)
    expected = []
    for number in range(6):
        depot.logs(number)
        expected.append(number)
        spark.steps, spark.kill_at = 0, 2 + number
        with suppress(Killed):
            spark.live(drivers)
    spark.kill_at = None
    spark.live(drivers)
    running, start = drivers(), spark.offset(spark.numbers("offsets")[-1])
    depot.logs(6)
    end = running.latest(start, is_limited=True)
    spark.live(drivers)
    assert spark.rows == [*expected, 6]
    with pytest.raises(FencedError):
        running.partitions(start, end)
    spark.live(drivers)
    depot.logs(7)
    for _ in range(2):
        other.live(make(depot.bucket, other))
    assert other.rows == [7]
    with pytest.raises(SourceError, match="went before the query read them"):
        spark.live(drivers)


class Order:
    """What was synced, and when entries were taken out of the queue."""

    def __init__(self, monkeypatch) -> None:
        self.acts: list[str] = []

        def note(disk: Any, path: str) -> None:
            self.acts.append(path)

        def everything() -> None:
            self.acts.append("everything")

        dequeue = Queue.dequeue

        def noted(queue: Queue, through: int, *, epoch: int) -> int:
            self.acts.append(f"dequeue {through}")
            return dequeue(queue, through, epoch=epoch)

        monkeypatch.setattr(folder, "sync_file", note)
        monkeypatch.setattr(reconciler, "sync_everything", everything)
        monkeypatch.setattr(acks, "sync_everything", everything)
        monkeypatch.setattr(Queue, "dequeue", noted)


@pytest.mark.parametrize(
    ("known", "sink", "acts"),
    [
        (True, SYNCED, ["metadata", "offsets/0", "commits/0", "dequeue 1"]),
        (True, "", ["everything", "metadata", "offsets/0", "commits/0", "dequeue 1"]),
        (False, "", ["everything", "dequeue 1"]),
        (False, SYNCED, ["dequeue 1"]),
    ],
)
def test_nothing_is_dequeued_before_what_it_rests_on_is_synced(
    tmp_path, monkeypatch, known, sink, acts
) -> None:
    depot = Depot(MemoryBucket("queue"))
    depot.logs(1)
    depot.logs(2)
    spark = PretendSpark(tmp_path / "checkpoint")
    changes = {"checkpoint": str(spark.folder)} if known else {}
    order = Order(monkeypatch)
    spark.live(lambda: driver_of(depot.bucket, sink=sink, **changes))
    if not known:
        assert order.acts == []  # Spark has not said yet that it has committed.
        spark.live(lambda: driver_of(depot.bucket, sink=sink, **changes))
    assert order.acts == acts
    assert depot.sequences == []


def test_a_query_over_an_empty_queue_begins_with_a_batch_of_nothing(make: Make, tmp_path) -> None:
    depot = Depot(MemoryBucket("queue"))
    spark = PretendSpark(tmp_path / "checkpoint")
    drivers = make(depot.bucket, spark, start="latest")
    spark.live(drivers)
    assert spark.sink == {0: []}
    (spark.folder / "commits" / "0").unlink()
    depot.logs(1)
    spark.live(drivers)
    assert spark.sink == {0: [], 1: [1]}


def test_files_of_a_sink_are_synced_by_its_log(tmp_path, monkeypatch) -> None:
    depot = Depot(MemoryBucket("queue"))
    depot.logs(1)
    spark = PretendSpark(tmp_path / "checkpoint")
    where = {"checkpoint": str(spark.folder), "sink": str(tmp_path / "lake")}
    (tmp_path / "lake" / "_spark_metadata").mkdir(parents=True)
    with pytest.raises(ConfigError, match="has no log of batch 0"):
        spark.live(lambda: driver_of(depot.bucket, **where))
    assert depot.sequences == [0]
    (tmp_path / "lake" / "_spark_metadata" / "0").write_text("v1\n")
    spark.live(lambda: driver_of(depot.bucket, **where))
    assert depot.sequences == []
    depot.logs(2)
    with pytest.raises(ConfigError, match="has no log of batch 1"):
        spark.live(lambda: driver_of(depot.bucket, **where))
    (tmp_path / "lake" / "_spark_metadata" / "1").write_text("v1\n")
    depot.logs(3)
    running = driver_of(depot.bucket, **where)
    with pytest.raises(ConfigError, match="has no log of batch 2"):
        spark.live(lambda: running)
    (tmp_path / "lake" / "_spark_metadata" / "2").write_text("v1\n")
    spark.live(lambda: running)
    assert depot.sequences == []
    assert spark.rows == [1, 2, 3]


def test_the_checkpoint_of_another_query_acks_nothing(tmp_path) -> None:
    depot = Depot(MemoryBucket("queue"))
    depot.logs(1)
    spark = PretendSpark(tmp_path / "own")
    empty, ahead = PretendSpark(tmp_path / "empty"), PretendSpark(tmp_path / "ahead")
    wrong = {"checkpoint": str(empty.folder), "sink": SYNCED}
    depot.logs(2)
    with pytest.raises(ConfigError, match="has no batch, and Spark has committed one"):
        spark.live(lambda: driver_of(depot.bucket, limits=Limits(1), **wrong))
    spark.live(lambda: driver_of(depot.bucket))
    depot.logs(3)
    foreign = empty.folder
    for name in ("offsets", "commits"):
        (foreign / name / "0").write_text('v1\n{}\n{"connector":"quiver"}')
    with pytest.raises(ConfigError, match="has nothing of slot 'logs' of the queue memory:queue"):
        spark.live(lambda: driver_of(depot.bucket, **wrong))
    ahead.live(lambda: driver_of(depot.bucket, consumes=False))
    wrong["checkpoint"] = str(ahead.folder)
    later = PretendSpark(tmp_path / "later")
    with pytest.raises(ConfigError, match="is ahead of this query"):
        later.live(lambda: driver_of(depot.bucket, **wrong))
