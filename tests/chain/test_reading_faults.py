"""A copy whose disk refuses, or who knows nothing of errors, ends no cursor silently."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import islice

import pytest
from chain_links import Link
from chain_tended import whole_world
from chain_wire_kit import PATIENCE
from chain_world import Client
from copies_kit import SLOTS
from record_kit import CountingMetadata, purged_in_part

from quiver.chain.reading import ChainCursor, CursorRules, Silence
from quiver.chain.reading.following import Followed, _Follower, follow
from quiver.chain.record import Partition
from quiver.errors import ClosedError, PoisonedError, RemoteError, StorageError
from quiver.testing.manual_clock import ManualClock

TIMES = {"start_ns": -(1 << 63), "end_ns": (1 << 63) - 1}


@pytest.fixture(scope="module")
def world():
    return whole_world(11, rf=2, nodes=5, rounds=12)


def followed(world, error):
    """Reading from any last location raises."""
    tails = {block.locations[-1] for block in world.partition().read().recent}
    client = Client("reader")

    class Refusing(Link):
        def read(self, block, offset, *, live=False):
            places = {b.number: b.locations for b in world.partition().read().recent}
            if places[block.number][-1] == self.name:
                raise error
            return super().read(block, offset, live=live)

    assert tails
    return Followed(
        world.metadata,
        lambda name: Refusing(world, client, name),
        world.clock,
        "core_0",
        lambda: SLOTS,
        **TIMES,
    )


@pytest.mark.parametrize(
    "error", [StorageError("cannot read", errno=5), PoisonedError("a sync failed")], ids=repr
)
def test_another_copy_is_read_when_a_disk_refuses(world, error):
    seqs = [message.wal_seq for message in follow(followed(world, error))]
    assert seqs == [receipt.wal_seq for receipt in world.sent]


def test_who_cannot_be_read_is_never_said_to_be_idle(world, monkeypatch):
    """A live one says that there is nothing yet once somebody who knows has said so."""

    class Away(Link):
        def read(self, block, offset, *, live=False):
            raise RemoteError(f"{self.name} is not reached", path=self.name, retryable=True)

    client = Client("reader")
    asked = replace(followed(world, KeyError("never")), live=True)
    away = follow(replace(asked, peers=lambda name: Away(world, client, name)))
    assert set(islice(away, 9)) == {Silence.UNKNOWN}
    found = follow(replace(asked, peers=lambda name: Link(world, client, name)))
    monkeypatch.setattr(world.metadata, "is_away", True)
    assert set(islice(found, 3)) == {Silence.UNKNOWN}
    monkeypatch.undo()
    seqs, silent = [], []
    for each in found:
        if each is Silence.IDLE:
            break
        silent.append(each) if isinstance(each, Silence) else seqs.append(each.wal_seq)
    assert seqs == [receipt.wal_seq for receipt in world.sent]
    assert set(silent) == {Silence.UNKNOWN}


def test_whoever_has_read_nothing_yet_goes_on_behind_a_purge():
    """Also where a page is purged in part, and has what was purged as long as that is so."""
    metadata, clock = CountingMetadata(), ManualClock()
    record = purged_in_part(Partition(metadata, "core_0", clock=clock))
    follower = _Follower(Followed(metadata, None, clock, "core_0", lambda: None, **TIMES))
    follower._number = 9  # It found block 10, and that was purged before it was read.
    assert follower._next(record).number == 49


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_what_nobody_thought_of_is_told_and_is_no_end(world):
    cursor = ChainCursor(
        ["core_0"],
        lambda _: followed(world, KeyError("what")),
        rules=CursorRules(),
        clock=world.clock,
    )
    with pytest.raises(ClosedError, match="in the midst"):
        cursor.next(PATIENCE)
    for thread in threading.enumerate():
        if thread.name.startswith("quiver-cursor"):
            thread.join(PATIENCE)  # What it says in the end is said within this test.
    cursor.close()
