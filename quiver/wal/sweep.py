"""Many entries of the log at once: bundles that stand one behind the other and are as they should.

What is checked is what ``format.frame_at`` checks: length, checksum, and that the blocks fill the
entry. Only a checksum is computed for each; the numbers around it are looked at in columns. The
answer goes one way: where this finds nothing, ``reader`` looks at the place and says what is there.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from quiver.payload import SEQ_MAX
from quiver.stored_run import Blocks, StoredRun
from quiver.wal.format import BLOCK, BUNDLE, ENTRY_BYTES_MIN, ENTRY_OVERHEAD, HEAD, LENGTH

__all__ = ["Swept", "sweep_view"]

_Numbers: TypeAlias = npt.NDArray[np.int64]

_START: Final = struct.Struct("<IB8xQ")
"""Length, type and sequence of an entry."""
_FEW: Final = 2
_FEW_BYTES: Final = 1 << 17
"""What is less is looked at by itself faster."""
_MANY: Final = 1 << 14
"""So many at a time, for columns take memory."""
_STRETCH: Final = 32
"""So many are gone through one by one before it is looked whether they are all alike."""

_HEAD: Final = np.dtype(
    [("length", "<u4"), ("type", "u1"), ("ns", "<i8"), ("seq", "<u8"), ("bitmap", "<u8")]
)
_BLOCK: Final = np.dtype(
    [("type", "<u2"), ("fingerprint", "<u8", (4,)), ("rows", "<u4"), ("length", "<u4")]
)
_CHECKSUM: Final = np.dtype("<u4")

Swept: TypeAlias = tuple[StoredRun | None, int]
"""What was found, and up to which place of the view there is no use in another look."""


def sweep_view(
    view: memoryview,
    at: int,
    *,
    base: int,
    last_seq: int,
    limit: int,
    generation: int,
    mask: int = 0,
) -> Swept:
    """Find the entries from place ``at`` of a view on, which is ``base`` bytes into its file."""
    starts, end = _starts(view, at, last_seq, sound=_with_own_checksum(mask))
    if len(starts) < _FEW and end - at < _FEW_BYTES:
        return None, end
    run = _columns(view, np.array(starts, np.int64), limit=limit, mask=mask)
    if run is None:
        return None, end
    first_seq = _START.unpack_from(view, at)[2]
    return run._replace(generation=generation, first_seq=first_seq, offsets=run.offsets + base), end


def _with_own_checksum(mask: int) -> int:
    """Give the CRC32C of any bytes with their own CRC32C behind them, XORed with a mask."""
    return crc32c(mask.to_bytes(4, "little"))


def _starts(view: memoryview, at: int, last_seq: int, *, sound: int) -> tuple[list[int], int]:
    """List where bundles begin whose checksums are right, and say where the last one ends.

    The first is above ``last_seq``, and each of the others follows the one before.
    """
    found: list[int] = []
    if at > len(view) - ENTRY_BYTES_MIN:
        return found, at
    first_seq = max(_START.unpack_from(view, at)[2], last_seq + 1)
    most = min(_MANY, SEQ_MAX + 1 - first_seq)
    while len(found) < most:
        asked = min(_STRETCH, most - len(found))
        some, at = _one_by_one(view, at, first_seq + len(found), most=asked, sound=sound)
        found += some
        if len(some) < asked:
            break
        step = at - found[-1]
        if len(some) > 1 and step == found[-1] - found[-2]:
            next_seq, rest = first_seq + len(found), most - len(found)
            alike = _all_alike(view, at, step, first_seq=next_seq, most=rest, sound=sound)
            found += alike
            at += len(alike) * step
    return found, at


def _one_by_one(
    view: memoryview, at: int, wanted: int, *, most: int, sound: int
) -> tuple[list[int], int]:
    """List the places of bundles from ``at`` on, of which the first has the number ``wanted``."""
    found: list[int] = []
    note, look, check = found.append, _START.unpack_from, crc32c
    size = len(view)
    last = size - ENTRY_BYTES_MIN
    most += wanted
    while at <= last and wanted < most:
        length, kind, wal_seq = look(view, at)
        end = at + length + ENTRY_OVERHEAD
        if kind != BUNDLE or wal_seq != wanted or end > size:
            break
        if check(view[at + LENGTH.size : end]) != sound:
            break
        note(at)
        wanted += 1
        at = end
    return found, at


def _all_alike(
    view: memoryview, at: int, step: int, *, first_seq: int, most: int, sound: int
) -> range:
    """Give the places of all bundles from ``at`` on that go on like this, each of so many bytes.

    As bundles of numbers do that have the same rows. No more are looked at in one go than were
    found before, so that as few are looked at in vain.
    """
    found, ahead, is_more = 0, _STRETCH, True
    while is_more and found < most:
        some = _alike(
            view,
            at + found * step,
            step,
            first_seq=first_seq + found,
            most=min(ahead, most - found),
            sound=sound,
        )
        found += some
        is_more = some == ahead
        ahead *= 2
    return range(at, at + found * step, step)


def _alike(view: memoryview, at: int, step: int, *, first_seq: int, most: int, sound: int) -> int:
    """Count the next of them, up to so many: their heads are looked at together."""
    count = min((len(view) - at) // step, most)
    if count < _FEW or step < ENTRY_BYTES_MIN:
        return 0
    heads = np.ndarray((count,), _HEAD, view, offset=at, strides=(step,))
    same = (heads["length"] == step - ENTRY_OVERHEAD) & (heads["type"] == BUNDLE)
    same &= heads["seq"] == np.arange(first_seq, first_seq + count, dtype=np.uint64)
    count = count if same.all() else int(same.argmin())
    # Rows of an array are made sooner than slices of a view.
    shape, begin = (count, step - LENGTH.size), at + LENGTH.size
    sums = list(map(crc32c, np.ndarray(shape, np.uint8, view, offset=begin, strides=(step, 1))))
    if sums.count(sound) < count:
        return next(number for number, found in enumerate(sums) if found != sound)
    return count


def _columns(view: memoryview, starts: _Numbers, *, limit: int, mask: int) -> StoredRun | None:
    """Give the entries at these places as columns, up to the first that is not sound; or None."""
    data = np.frombuffer(view, np.uint8)
    heads = _records(data, starts, _HEAD)
    lengths = heads["length"].astype(np.int64)
    bodies = starts + LENGTH.size
    ends = bodies + lengths
    sound = (lengths >= HEAD.size) & (lengths <= limit)
    bitmaps = heads["bitmap"]
    counts = np.bitwise_count(bitmaps).astype(np.int64)
    blocks, behind = _blocks(data, bitmaps, places=bodies + HEAD.size, ends=ends)
    sound &= behind == ends
    run = StoredRun(
        generation=0,
        first_seq=0,
        offsets=starts,
        lengths=lengths,
        checksums=_records(data, ends, _CHECKSUM) ^ np.uint32(mask),
        payload_counts=counts,
        payload_bytes=lengths - HEAD.size - BLOCK.size * counts,
        times=heads["ns"].astype(np.int64),
        blocks=tuple(blocks),
    )
    if sound.all():
        return run
    good = int(sound.argmin())
    return run.part(0, good) if good else None


def _blocks(
    data: npt.NDArray[np.uint8],
    bitmaps: npt.NDArray[np.uint64],
    *,
    places: _Numbers,
    ends: _Numbers,
) -> tuple[list[Blocks], _Numbers]:
    """Follow the blocks of all entries side by side, and say where the last of each ends."""
    if (bitmaps == bitmaps[0]).all():  # As nearly all are, and then there is less to keep count of.
        alike = _same_blocks(data, int(bitmaps[0]), places=places, ends=ends)
        if alike is not None:
            return alike
    found = []
    left, behind = bitmaps.copy(), places.copy()
    rows = np.flatnonzero(left)
    while len(rows):
        fits = behind[rows] + BLOCK.size <= ends[rows]
        if not fits.all():
            behind[rows[~fits]] = -1
            rows = rows[fits]
        here, bits = behind[rows], left[rows]
        block = _records(data, here, _BLOCK)
        behind[rows] = here + (BLOCK.size + block["length"].astype(np.int64))
        lowest = bits & (~bits + np.uint64(1))
        left[rows] = bits ^ lowest
        slots = np.bitwise_count(lowest - np.uint64(1))
        found.append(Blocks(rows, slots, block["fingerprint"]))
        rows = rows[left[rows] != 0]
    return found, behind


def _same_blocks(
    data: npt.NDArray[np.uint8], bitmap: int, *, places: _Numbers, ends: _Numbers
) -> tuple[list[Blocks], _Numbers] | None:
    """Do it for entries that fill the same slots; None if one of them ends too early."""
    rows = np.arange(len(places))
    found, behind = [], places
    for slot in range(bitmap.bit_length()):
        if bitmap >> slot & 1:
            if (behind + BLOCK.size > ends).any():
                return None
            block = _records(data, behind, _BLOCK)
            behind = behind + (BLOCK.size + block["length"].astype(np.int64))
            found.append(Blocks(rows, np.full(len(rows), slot, np.uint8), block["fingerprint"]))
    return found, behind


def _records(data: npt.NDArray[np.uint8], places: Sequence[int] | _Numbers, kind: Any) -> Any:  # noqa: ANN401
    """Copy what stands at each place, all of it inside of the data, which is longer than one."""
    count = len(data) - kind.itemsize + 1
    # As many bytes from each place on: to copy them at once is faster than field by field.
    each = np.dtype((np.void, kind.itemsize))
    return np.ndarray((count,), each, data, strides=(1,))[places].view(kind)
