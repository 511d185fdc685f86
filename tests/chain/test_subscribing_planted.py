"""A life of a subscriber finds what is planted; else what it does not find means nothing.

Plain runs plant a third of it; with QUIVER_CHAIN=all, as make crash has it, each is planted.
"""

from __future__ import annotations

import gc
import os
from contextlib import ExitStack, suppress

import pytest
from cluster_kit import row, running, value_of

from quiver.chain import LoaderRules, Partition, SubscriberRules
from quiver.chain.peers import BlockName
from quiver.chain.serving import AuditRules
from quiver.chain.subscribing import blocks, known, log
from quiver.chain.subscribing.marks import Lane
from quiver.chain.subscribing.records import Acked
from quiver.clock import SystemClock
from quiver.errors import QuiverError, SubscriberError

PATIENCE = 20.0
COUNT = 60
RULES = SubscriberRules(soft_bytes=4_000, patience="5m")


def number_of(handle) -> int:
    return handle["events"]["n"][0].as_py()


def ack(nodes, subscription, count: int) -> list[int]:
    """Ack what comes; it is of blocks that are finished and at RF (R43)."""
    partition = Partition(nodes.metadata, "core_0", clock=SystemClock())
    found = []
    for _ in range(count):
        handle = subscription.next(PATIENCE)
        assert handle is not None
        with handle:
            block = partition.block(partition.read(), handle.segment_seq)
            assert block.digest
            assert len(block.locations) == block.rf
            found.append(number_of(handle))
    return found


def early(cluster) -> None:
    """Nobody hears of what is sealed and was not finished (R43)."""
    loader = cluster.loader("core_0", ["events"], rules=LoaderRules(rf=2))
    loader.send(row(0), timeout=PATIENCE)
    loader.close(timeout=PATIENCE)
    with cluster.subscribe("s", "core_0", rules=RULES) as subscription:
        assert subscription.next(0) is None


class Alive:
    """Subscribers and a loader, none of which outlives its life."""

    def __init__(self, cluster, ends: ExitStack) -> None:
        self.cluster = cluster
        self._ends = ends
        self.loader = cluster.loader(
            "core_0", ["events"], rules=LoaderRules(rf=2, soft_bytes=5_000)
        )
        ends.callback(self.loader.abandon)

    def subscribe(self, name: str):
        subscription = self.cluster.subscribe(name, "core_0", rules=RULES)
        self._ends.callback(subscription.abandon)
        return subscription


def life(nodes, alive: Alive) -> None:
    """Subscribe, lose the process, be fenced, give up, purge; all that was acked stays so."""
    loader, cluster = alive.loader, alive.cluster
    for number in range(COUNT):
        loader.send(row(number), timeout=PATIENCE)
    loader.flush(PATIENCE)
    first = alive.subscribe("s")
    slow = alive.subscribe("slow")
    assert ack(nodes, first, 20) == list(range(20))
    first.abandon()  # As if its machine were gone.
    second = alive.subscribe("s")
    assert ack(nodes, second, 5) == list(range(20, 25))
    held = second.next(PATIENCE)
    third = alive.subscribe("s")
    with pytest.raises(SubscriberError):
        held.ack()
    held.defer()
    second.abandon()
    letter = third.next(PATIENCE)
    assert number_of(letter) == 25
    letter.reject("odd")
    loader.close(timeout=PATIENCE)
    assert ack(nodes, third, COUNT - 26) == list(range(26, COUNT))
    record = Partition(nodes.metadata, "acks.s", clock=SystemClock()).read()
    assert len(record.recent) <= 2
    cluster.purge_acked()
    assert ack(nodes, slow, COUNT) == list(range(COUNT))
    slow.close()
    cluster.purge_acked()
    at = third.dead_letters()[0].time_ns
    with cluster.cursor("core_0", start=at, end=at) as cursor:
        assert [value_of(each) for each in cursor] == [25]
    third.close()
    with cluster.subscribe("s", "core_0", rules=RULES) as last:
        assert last.next(0) is None


def heard_too_early(patch):
    def find(self, partition, number):
        record = self.record(partition)
        if record is None:
            return None
        found = self._reach.partition(partition).blocks_from(record, number)
        return record, next((each for each in found), None)

    def fetched(self, partition, block):
        name = BlockName(partition, block.number)
        for location in block.locations:
            self._reach.peers(location).finish(name)
        data = b"".join(self._reach.peers(block.locations[0]).segment(name))
        return blocks._loaded(name, data, self._reach.slots(partition))

    patch.setattr(blocks.Blocks, "next", find)
    patch.setattr(blocks.Blocks, "_fetched", fetched)


def ack_in_memory_alone(patch):
    honest = log.AckLog.put

    def put(self, records):
        kept = [each for each in records if not isinstance(each, Acked)]
        return honest(self, kept)

    patch.setattr(log.AckLog, "put", put)


def purge_without_snapshot(patch):
    def keep_up(self, marks):
        del marks
        record = self._loader.record
        if record.open is not None and record.open.number != self._number:
            self._number = record.open.number
            self._reach.partition(self._partition).purge(record.end + 1)

    patch.setattr(log.AckLog, "keep_up", keep_up)


def snapshot_alone_is_read(patch):
    honest = log._replayed

    def replayed(messages, until):
        def first():
            for message in messages:
                if message is not None:
                    yield message
                    return

        return honest(first(), until)

    patch.setattr(log, "_replayed", replayed)


def no_snapshot_of_later_blocks(patch):
    patch.setattr(log.AckLog, "keep_up", lambda self, marks: None)


def fenced_and_not_told(patch):
    patch.setattr(log.AckLog, "told", lambda self: suppress(QuiverError))


def marks_of_the_fastest(patch):
    honest = known._needs
    patch.setattr(known, "_needs", lambda found, name: sorted(honest(found, name))[-1:])


def letters_are_not_kept(patch):
    patch.setattr(known, "_pinned", lambda lane: lane.floor)


def floor_is_the_newest(patch):
    patch.setattr(Lane, "floor", property(lambda self: self.next_number))


PLANTED = [
    heard_too_early,
    ack_in_memory_alone,
    purge_without_snapshot,
    snapshot_alone_is_read,
    no_snapshot_of_later_blocks,
    fenced_and_not_told,
    marks_of_the_fastest,
    letters_are_not_kept,
    floor_is_the_newest,
]
if os.environ.get("QUIVER_CHAIN") != "all":
    PLANTED = [ack_in_memory_alone, snapshot_alone_is_read, letters_are_not_kept]


def lived(tmp_path) -> None:
    audit = AuditRules(every_seconds=0.1)
    rarely = AuditRules(every_seconds=3_600)
    with running(tmp_path / "1", "a", "b", audit=rarely) as nodes, nodes.cluster() as cluster:
        early(cluster)
    with (
        running(tmp_path / "2", "a", "b", audit=audit) as nodes,
        nodes.cluster() as cluster,
        ExitStack() as ends,
    ):
        life(nodes, Alive(cluster, ends))


def test_r43_r44_a_life_without_a_planted_defect_is_found_whole(tmp_path):
    lived(tmp_path)


def is_found(tmp_path) -> bool:
    try:
        lived(tmp_path)
    except (AssertionError, QuiverError, pytest.fail.Exception, AttributeError):
        return True
    return False


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("plant", PLANTED, ids=[plant.__name__ for plant in PLANTED])
def test_what_is_planted_is_found(plant, tmp_path, monkeypatch):
    plant(monkeypatch)
    assert is_found(tmp_path)
    gc.collect()  # Handles that it left without an outcome.
