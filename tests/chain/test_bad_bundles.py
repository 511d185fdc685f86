"""Entries that are whole by their checksum, and hold no bundle that anybody could read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from chain_links import Link
from chain_oracle import check_partition
from chain_world import Client, World
from copies_kit import BLOCK, LAYOUT, ROUTE, SLOTS, append, copies, entry, place, sealed

from quiver.chain.copies import BundleCheck
from quiver.chain.copies.entries import frames_in
from quiver.chain.loading.drafts import Draft
from quiver.chain.peers import Entries
from quiver.chain.reading.decoding import messages_in_log, messages_in_segment
from quiver.chain.reading.following import Followed, follow
from quiver.chain.reading.message import ChainMessage, ChainPosition
from quiver.chain.sealing import Sealed
from quiver.errors import DamagedEntry
from quiver.payload import EncodedBundle, Payload
from quiver.segment import open_bytes
from quiver.wal.format import encode_bundle

BEGIN = ChainPosition(-1, -1)
GARBAGE = Payload(0, 0, bytes(8), 2, b"this is no stream of Arrow's, and never was one")
STRANGE = GARBAGE._replace(slot_id=9)


def bad_entry(wal_seq: int, *payloads: Payload) -> bytes:
    return encode_bundle(EncodedBundle(wal_seq, 10 * wal_seq, payloads or (GARBAGE,)))


def planted(world, loader):
    """Have a loader send garbage from here on."""
    loader._drafts.draft = lambda _: Draft((GARBAGE,))
    return world.send(loader)


def follow_all(world, *, live=False, after=None):
    client = Client("reader")
    return follow(
        Followed(
            world.metadata, lambda name: Link(world, client, name), world.clock, "core_0",
            lambda: SLOTS, start_ns=-(1 << 63), end_ns=(1 << 63) - 1, live=live, after=after,
        )
    )  # fmt: skip


def test_the_head_takes_none_from_a_loader_who_stops_then_and_says_why():
    world = World(21, rf=2)
    loader = world.loader()
    assert world.run(lambda: loader.record is not None)
    for _ in range(3):
        world.send(loader)
    assert world.run(lambda: loader.acked_seq >= world.sent[-1].wal_seq)
    planted(world, loader)
    assert world.run(lambda: loader._driver.fault is not None, turns=40_000)
    fault = loader._driver.fault
    assert isinstance(fault, DamagedEntry)
    assert "slot 0 of it holds no batch" in str(fault)
    world.sent.pop()
    second = world.loader("second", takes_over=True)
    assert world.run(lambda: second.record is not None, turns=20_000)
    world.send(second)
    second.end()
    assert world.run(lambda: second._driver.is_closed, turns=20_000)
    check_partition(world, is_all=False)
    assert len(list(follow_all(world))) == len(world.sent)


@pytest.mark.parametrize("payload", [GARBAGE, STRANGE], ids=["garbage", "slot"])
def test_a_segment_is_made_without_what_cannot_be_read(payload):
    shelf = copies()
    shelf.prepare(ROUTE, LAYOUT)
    append(shelf, 1)
    copy = shelf[BLOCK]
    bad = bad_entry(2, payload)
    stream = copy.begin(ROUTE)
    place(copy, stream, Entries(ROUTE.epoch, len(entry(1)), 2, memoryview(bad)))
    place(copy, stream, Entries(ROUTE.epoch, len(entry(1) + bad), 3, memoryview(entry(3))))
    copy.sync()
    copy.cut(Sealed(len(entry(1) + bad + entry(3)), 3, 10, 30, ()))
    finished = copy.finish()
    assert finished.rows == 4
    data = list(copy.segment())
    assert open_bytes(b"".join(data), place="here").lost == {1: (payload.slot_id,)}
    found = messages_in_segment(data, BLOCK, SLOTS, above=BEGIN)
    assert next(found).wal_seq == 1
    with pytest.raises(DamagedEntry, match=r"entry 2 .* in core_0/3 .*position=.*\(20, 2\)"):
        next(found)
    assert [
        m.wal_seq for m in messages_in_segment(data, BLOCK, SLOTS, above=ChainPosition(20, 2))
    ] == [3]


def test_who_reads_a_log_is_told_where_it_is_and_how_to_go_on():
    body = memoryview(entry(1) + bad_entry(2) + entry(3))
    found = messages_in_log(body, BLOCK, SLOTS, above=BEGIN, offset=100)
    assert next(found).wal_seq == 1
    with pytest.raises(DamagedEntry, match=r"entry 2 is whole") as told:
        next(found)
    assert told.value.path == "core_0/3"
    assert told.value.offset == 100 + len(entry(1))
    assert [
        m.wal_seq for m in messages_in_log(body, BLOCK, SLOTS, above=ChainPosition(20, 2), offset=0)
    ] == [3]


@pytest.mark.parametrize("live", [False, True], ids=["history", "live"])
def test_a_cursor_does_not_ask_for_it_again_and_again(monkeypatch, live):
    monkeypatch.setattr(BundleCheck, "check", lambda *_: None)  # As before it was looked at.
    world = World(21, rf=2)
    loader = world.loader()
    assert world.run(lambda: loader.record is not None)
    world.send(loader)
    bad = planted(world, loader)
    assert world.run(lambda: loader.acked_seq >= bad.wal_seq, turns=20_000)
    reading = follow_all(world, live=live)
    messages = []
    with pytest.raises(DamagedEntry, match=f"entry {bad.wal_seq} is whole"):
        for message in reading:
            messages.append(message)
            assert len(messages) < 50, "it goes round in circles"
    given = [each.wal_seq for each in messages if isinstance(each, ChainMessage)]
    assert given == [world.sent[0].wal_seq]


def test_buffers_lie_where_numbers_may():
    whole = entry(1)
    for shift in range(8):
        moved = memoryview(bytes(shift) + whole)[shift:]
        (message,) = messages_in_log(moved, BLOCK, SLOTS, above=BEGIN, offset=0)
        batch = message.bundle["events"]
        assert batch["n"].to_pylist() == [1, 2]
        assert all(b is None or b.address % 8 == 0 for b in batch["n"].buffers())


def test_good_ones_are_good():
    BundleCheck(LAYOUT).check(frames_in(memoryview(entry(1) + entry(2)), 1 << 20))
    shelf = copies()
    shelf.prepare(ROUTE, LAYOUT)
    append(shelf, 1, 2)
    sealed(shelf, 1, 2)
    assert shelf[BLOCK].finish().rows == 4


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_what_is_compressed_is_not_taken_for_it_may_become_far_more(codec):
    batch = pa.record_batch({"n": np.zeros(1 << 20, np.int64)})
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    payload = Payload(0, 0, bytes(32), batch.num_rows, sink.getvalue())
    assert len(payload.data) < batch.nbytes / 100
    body = memoryview(bad_entry(0, payload))
    check = BundleCheck(LAYOUT)
    with pytest.raises(DamagedEntry, match="is compressed"):
        check.check(frames_in(body, 1 << 20))
    bundle = EncodedBundle(0, 0, (payload,))
    assert check.sound(bundle) == (bundle, ()), "what is in a log already is not lost for that"
