"""Loaders, copies and repairs at the edges: nothing is lost, locked or kept for good by them."""

from __future__ import annotations

import os
import random
import traceback

import pytest
from cluster_kit import row, running, value_of
from copies_kit import BLOCK, LAYOUT, LOG, ROUTE, copies
from held_files import files_held
from numbers_kit import PATIENCE, QUICK
from record_kit import begun

from quiver.chain.copies import Copies, CopyRules
from quiver.chain.loading import LoaderRules
from quiver.chain.record import Partition, claimed
from quiver.chain.rolling import Answered, Claimed, CommitNow, RollRules, begin, close, step
from quiver.chain.rolling.roll import Phase
from quiver.chain.sealing import Answer
from quiver.chain.serving import AuditRules
from quiver.chain.tending import Tender
from quiver.clock import SystemClock
from quiver.disk import LocalDisk
from quiver.disk.local_file import LocalFile
from quiver.errors import CapacityError, DamagedEntry, FencedError, InputError

HOUR = 3_600 * 10**9
NEVER = AuditRules(every_seconds=10_000)


def partition_of(nodes, name: str = "p") -> Partition:
    return Partition(nodes.metadata, name, clock=SystemClock())


def test_times_of_a_partition_that_rise_are_not_given_by_callers(tmp_path):
    """A block that ends at the time at which the next one begins cannot be sealed."""
    with running(tmp_path, "a", "b", audit=QUICK) as nodes, nodes.cluster() as cluster:
        with cluster.loader("p", ["events"]) as loader:
            loader.send(row(0)).wait(PATIENCE)
        late = cluster.loader("p", ["events"], rules=LoaderRules(is_rising=False))
        with pytest.raises(InputError, match="the times of p rise"):
            late.wait_open(PATIENCE)
        late.abandon()
        with cluster.loader("p", ["events"]) as loader:
            loader.send(row(1)).wait(PATIENCE)
        with cluster.cursor("p") as cursor:
            assert [value_of(message) for message in cursor] == [0, 1]


def test_an_end_waits_for_no_place_for_a_block_that_nobody_wants():
    roll, _ = begin(RollRules("loader", soft_bytes=1000), begun())
    roll, _ = close(roll)
    roll = roll.__class__(**{**_fields(roll), "is_closing": False})
    roll, _ = step(roll, Claimed(claimed(roll.record, "loader")))
    for location in roll.record.open.locations:
        roll, _ = step(roll, Answered(2, Answer(location, 1000, 9, 1, 10)))
    assert roll.phase is Phase.PLACING
    roll, acts = close(roll)
    assert [type(act) for act in acts] == [CommitNow]
    assert acts[0].following is None


def _fields(roll) -> dict[str, object]:
    return {name: getattr(roll, name) for name in roll.__dataclass_fields__}


def test_a_fault_that_is_told_again_and_again_keeps_nothing_of_who_was_told(tmp_path):
    with running(tmp_path, "a", "b", audit=QUICK) as nodes, nodes.cluster() as cluster:
        loader = cluster.loader("p", ["events"])
        loader.send(row(0)).wait(PATIENCE)
        other = cluster.loader("p", ["events"], rules=LoaderRules(takes_over=True))
        other.wait_open(PATIENCE)
        with pytest.raises(FencedError):
            loader.send(row(1)).wait(PATIENCE)
        for _ in range(50):
            with pytest.raises(FencedError) as caught:
                loader.send(row(1))
        assert len(traceback.extract_tb(caught.value.__traceback__)) < 30
        loader.abandon()
        other.close(PATIENCE)


def test_damage_that_is_told_again_and_again_keeps_nothing_of_who_asked():
    shelf = copies()
    shelf.damaged[BLOCK] = DamagedEntry("odd")
    for _ in range(50):
        with pytest.raises(DamagedEntry) as caught:
            shelf[BLOCK]
    assert len(traceback.extract_tb(caught.value.__traceback__)) == 2


def test_an_interrupt_of_the_last_wait_leaves_no_loader_behind(tmp_path, monkeypatch):
    with running(tmp_path, "a", "b", audit=QUICK) as nodes, nodes.cluster() as cluster:
        loader = cluster.loader("p", ["events"])
        loader.send(row(0)).wait(PATIENCE)

        def interrupted(_):
            raise KeyboardInterrupt

        monkeypatch.setattr(loader, "flush", interrupted)
        with pytest.raises(KeyboardInterrupt), loader:
            pass
        assert loader._driver._is_over


def test_a_forked_child_abandons_nothing_of_its_parent(tmp_path, monkeypatch):
    with running(tmp_path, "a", "b", audit=QUICK) as nodes, nodes.cluster() as cluster:
        loader = cluster.loader("p", ["events"])
        loader.send(row(0)).wait(PATIENCE)
        process = os.getpid()
        with monkeypatch.context() as child:
            child.setattr(os, "getpid", lambda: process + 1)
            loader.abandon()
        assert not loader._driver._is_over
        loader.close(PATIENCE)


def test_room_that_the_disk_refuses_keeps_no_file_open(tmp_path, monkeypatch):
    shelf = Copies(LocalDisk(tmp_path), CopyRules("b"))
    before = files_held(tmp_path)

    def refuse(*_):
        raise CapacityError("the disk is full")

    for act in ("sync", "write"):
        with monkeypatch.context() as full:
            full.setattr(LocalFile, act, refuse)
            for _ in range(5):
                with pytest.raises(CapacityError):
                    shelf.prepare(ROUTE, LAYOUT)
    assert files_held(tmp_path) == before
    shelf.prepare(ROUTE, LAYOUT)


def test_a_damaged_copy_that_was_fetched_anew_meanwhile_is_not_dropped():
    """Whoever drops it has looked, and is about to: the files are those of the good one by now."""
    shelf = copies()
    shelf.prepare(ROUTE, LAYOUT)
    good = shelf[BLOCK]

    class Late(dict):
        """Says once what was true before."""

        def __init__(self, now, before):
            super().__init__(now)
            self.before = [before]

        def get(self, key, other=None):
            return self.before.pop() if self.before else super().get(key, other)

    shelf._copies = Late({BLOCK: good}, None)
    shelf._copies.before = [None, None]
    shelf.damaged = Late({}, DamagedEntry("as it was"))
    shelf.drop(BLOCK)
    assert BLOCK in shelf
    assert shelf._disk.stat(LOG) is not None


def test_a_location_that_nobody_knows_of_any_more_is_made_up_for(tmp_path):
    with running(tmp_path, *"abcd", audit=NEVER) as nodes, nodes.cluster() as cluster:
        with cluster.loader("p", ["events"], rules=LoaderRules(rf=3)) as loader:
            loader.send(row(0)).wait(PATIENCE)
        members, partition = cluster.members, partition_of(nodes)
        members.look()
        tender = Tender(partition, "p", peers=members, random=random.Random(1))
        gone = partition.block(partition.read(), 0).locations[0]
        nodes.stop(gone)
        nodes.metadata.delete(f"nodes/{gone}.node")
        members.look()
        for hour in range(4):
            serving = {node.name: node for node in members.nodes()}
            tender.tend(serving, members.gone_since(), now_ns=hour * HOUR)
        locations = partition.block(partition.read(), 0).locations
        assert gone not in locations
        assert len(locations) == 3
