"""Entries of a block, and copies of it on disks in RAM."""

from __future__ import annotations

import pyarrow as pa

from quiver.bundle import fingerprint
from quiver.chain.copies import BlockCopy, Copies, CopyRules
from quiver.chain.peers import BlockName, Entries, Route, encode_layout
from quiver.chain.sealing import Sealed
from quiver.ipc import encode_stream
from quiver.payload import EncodedBundle, Payload
from quiver.slots import SlotTable
from quiver.testing import MemoryDisk
from quiver.wal.format import encode_bundle

__all__ = [
    "BLOCK",
    "LAYOUT",
    "LOG",
    "ROUTE",
    "RULES",
    "SLOTS",
    "STATE",
    "all_of",
    "append",
    "copies",
    "entry",
    "frame",
    "place",
    "read",
    "reopened",
    "sealed",
]

SLOTS = SlotTable.of(["events"])
LAYOUT = encode_layout(SLOTS)
BLOCK = BlockName("core_0", 3)
ROUTE = Route(BLOCK, 5, ("a", "b"))
RULES = CopyRules("b", boot=b"1" * 16)

_PRINT = fingerprint(pa.schema({"n": pa.int64()}))


def entry(wal_seq: int, time_ns: int | None = None, rows: int = 2) -> bytes:
    """Write a bundle of a few numbers as an entry; ten nanoseconds from one to the next."""
    batch = pa.record_batch({"n": pa.array(range(wal_seq, wal_seq + rows), pa.int64())})
    payload = Payload(0, 0, _PRINT, rows, encode_stream(batch))
    return encode_bundle(
        EncodedBundle(wal_seq, 10 * wal_seq if time_ns is None else time_ns, (payload,))
    )


def frame(offset: int, *seqs: int, epoch: int = ROUTE.epoch) -> Entries:
    body = b"".join(map(entry, seqs))
    return Entries(epoch, offset, seqs[-1], memoryview(body))


def copies(disk: MemoryDisk | None = None, rules: CopyRules = RULES) -> Copies:
    return Copies(disk or MemoryDisk(), rules)


def place(copy: BlockCopy, stream: int, entries: Entries) -> None:
    """Look at entries and append them."""
    copy.append(stream, entries, copy.look_at(entries))


def append(
    shelf: Copies, *seqs: int, route: Route = ROUTE, sync: bool = True, rows: int = 2
) -> bytes:
    """Append entries to a block, one frame each, behind what it has."""
    copy = shelf[route.block]
    stream = copy.begin(route)
    bodies = [entry(seq, rows=rows) for seq in seqs]
    at = copy.holding.length
    for seq, body in zip(seqs, bodies, strict=True):
        place(copy, stream, Entries(route.epoch, at, seq, memoryview(body)))
        at += len(body)
    if sync:
        copy.readers.show(copy.sync())
    return b"".join(bodies)


LOG = "core_0/0000000000000003.log"
STATE = "core_0/0000000000000003.copy"


def reopened(shelf, disk: MemoryDisk, rules: CopyRules = RULES):
    """Start anew after a kill: nothing is closed."""
    del shelf
    disk.forget_locks()
    return copies(disk, rules)


def all_of(pieces) -> bytes:
    return b"".join(bytes(piece) for piece in pieces)


def read(shelf, block: BlockName = BLOCK, offset: int = 0) -> bytes:
    if (found := shelf[block].found_unsure()) is not None:  # As a node does whom all others tell.
        shelf[block].readers.show(found)
    return all_of(shelf[block].read(offset, live=False, wait_seconds=0))


def sealed(shelf, *seqs: int) -> Sealed:
    """Cut behind these entries, the first ones of a block."""
    ends = Sealed(sum(len(entry(seq)) for seq in seqs), seqs[-1], 10 * seqs[0], 10 * seqs[-1], ())
    shelf[BLOCK].cut(ends)
    return ends
