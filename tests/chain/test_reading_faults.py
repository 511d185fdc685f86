"""A copy whose disk refuses, or who knows nothing of errors, ends no cursor silently."""

from __future__ import annotations

import threading

import pytest
from chain_links import Link
from chain_tended import whole_world
from chain_wire_kit import PATIENCE
from chain_world import Client
from copies_kit import SLOTS

from quiver.chain.reading import ChainCursor, CursorRules
from quiver.chain.reading.following import Followed, follow
from quiver.errors import ClosedError, PoisonedError, StorageError

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
