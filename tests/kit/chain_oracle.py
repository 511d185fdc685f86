"""What must be so of a partition, whatever happened: read by hand from all copies of all blocks."""

from __future__ import annotations

from quiver.chain.copies.entries import Extent
from quiver.chain.peers import BlockName
from quiver.chain.sealing import Sealed
from quiver.wal.format import frame_at

__all__ = ["check_partition", "committed_of", "contested_of", "life_of", "takeover_of", "waited_of"]


def committed_of(world):
    """Give the bytes of each sealed block; all of its copies have to be the same (R18, R22)."""
    partition = world.partition()
    record = partition.read()
    assert record.open is None
    assert not record.sealing_by
    found = []
    for block in partition.blocks(record):
        name = BlockName("core_0", block.number)
        ends = Sealed(block.length, block.last_seq, block.start, block.end, ())
        copies = set()
        assert len(set(block.locations)) == len(block.locations) > 0
        for location in block.locations:
            node = world.machines[location].node
            node.cut(name, ends)
            copies.add(b"".join(map(bytes, node.read(name, 0))))
        (data,) = copies
        assert len(data) == block.length
        found.append((block, data))
    return found


def entries_of(data):
    extent = Extent()
    frames = []
    while extent.length < len(data):
        frame = frame_at(memoryview(data), extent.length, 1 << 30)
        extent = extent.with_frame(frame)
        frames.append(frame)
    return frames, extent


def check_partition(world, *, is_all=True):
    """Acknowledged is in it, once and in order; readers saw nothing else; ranges are disjoint."""
    found = committed_of(world)
    seqs, there, last = [], set(), None
    for block, data in found:
        frames, extent = entries_of(data)
        assert extent == (block.length, block.last_seq, block.start, block.end)
        seqs += [frame.wal_seq for frame in frames]
        there |= {(frame.wal_seq, frame.ingestion_ns) for frame in frames}
        assert (
            last is None
            or (last.end < block.start)
            or (block.continues and last.end == block.start)
        )
        last = block
    assert seqs == sorted(set(seqs)), "twice, or out of order"
    acked = {(receipt.wal_seq, receipt.time_ns) for receipt in world.sent if receipt.is_replicated}
    assert acked <= there, f"lost {sorted(acked - there)[:5]}"
    if is_all:
        assert seqs == [receipt.wal_seq for receipt in world.sent]
    blocks = {block.number: data for block, data in found}
    for number, seen in world.seen.items():
        assert blocks.get(number, b"").startswith(seen), f"seen of {number} and not there"
    return found


def life_of(world, faults, *, rounds=25):
    """Load through faults that the lot chooses, mend all of them, and close."""
    lot = world.lot.random
    loader = world.loader()
    assert world.run(lambda: loader.record is not None)
    for _ in range(rounds):
        for _ in range(lot.randrange(4)):
            world.send(loader)
        world.run(turns=lot.randrange(60))
        world.look()
        lot.choice(faults)(world)
        world.run(turns=lot.randrange(60))
        world.look()
    return ended_of(world, loader)


def waited_of(world, faults, *, rounds=25):
    """Load one entry behind the other, each when all before is acknowledged, or not much later."""
    lot = world.lot.random
    loader = world.loader()
    assert world.run(lambda: loader.record is not None)
    for _ in range(rounds):
        for _ in range(lot.randrange(6)):
            world.send(loader)
            world.run(lambda: loader.acked_seq >= world.sent[-1].wal_seq, turns=lot.randrange(200))
            world.look()
        lot.choice(faults)(world)
    return ended_of(world, loader)


def ended_of(world, loader):
    """Mend all that failed, close, and check what there is."""
    world.heal()
    world.send(loader)
    assert world.run(lambda: loader.acked_seq >= world.sent[-1].wal_seq, turns=20_000), "stuck"
    world.look()
    loader.end()
    assert world.run(lambda: loader._driver.is_closed, turns=20_000), "does not close"
    world.run()
    return check_partition(world)


def takeover_of(world, faults, *, rounds=12):
    """Load, and have another loader take over while the first one goes on (R2)."""
    lot = world.lot.random
    first = world.loader()
    assert world.run(lambda: first.record is not None)
    second = None
    loaders = [first]
    for turn in range(rounds):
        for loader in loaders:
            if loader.record is not None and loader._driver.fault is None:
                for _ in range(lot.randrange(3)):
                    world.send(loader)
        world.run(turns=lot.randrange(40))
        world.look()
        if turn == rounds // 2:
            second = world.loader("second", takes_over=True)
            loaders.append(second)
        lot.choice(faults)(world)
        world.run(turns=lot.randrange(40))
        world.look()
    world.heal()
    assert world.run(lambda: second.record is not None, turns=20_000), "not taken over"
    last = world.send(second)
    assert world.run(lambda: second.acked_seq >= last.wal_seq, turns=20_000), "stuck"
    world.look()
    if first._driver.fault is None:
        world.send(first)
    assert world.run(lambda: first._driver.fault is not None, turns=20_000), "two who write"
    second.end()
    assert world.run(lambda: second._driver.is_closed, turns=20_000), "does not close"
    world.run()
    assert not first._driver.is_closed
    return check_partition(world, is_all=False)


def contested_of(world, faults, *, rounds=10):
    """One loader after the other takes over, while those before it are at it still (R2)."""
    lot = world.lot.random
    for turn in range(rounds):
        world.loader(f"loader{turn}", takes_over=True)
        world.run(turns=lot.randrange(50))
        for loader in world.loaders:
            if loader.record is not None and loader._driver.fault is None:
                for _ in range(lot.randrange(4)):
                    world.send(loader)
        world.run(turns=lot.randrange(25))
        world.look()
        lot.choice(faults)(world)
    world.heal()
    for loader in world.loaders:
        loader.abandon()
        loader.client.die()
    last = world.loader("last", takes_over=True)
    assert world.run(lambda: last.record is not None, turns=20_000), "not taken over"
    receipt = world.send(last)
    last.end()
    assert world.run(lambda: last._driver.is_closed, turns=20_000), "does not close"
    world.run()
    assert receipt.is_replicated
    return check_partition(world, is_all=False)
