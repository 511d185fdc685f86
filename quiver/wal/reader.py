"""Walk the entries of one WAL file, and find the way again behind damage.

At each place there is one of: a good entry; a hole, where a prefix was given back to the disk; a
damaged region, with good entries behind it or at the end of a file that was finished; or the tail,
where a crash ended the last append. ``walk`` says which, in order, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from quiver.disk import File
from quiver.errors import DamagedEntry, DamageError, TornEntry
from quiver.stored_run import StoredRun
from quiver.wal.content import Content
from quiver.wal.format import (
    BUNDLE,
    CHECKPOINT,
    ENTRY_BYTES_MIN,
    ENTRY_OVERHEAD,
    HEAD,
    HEADER_BYTES,
    LENGTH,
    NOTED,
    Frame,
    Place,
)
from quiver.wal.reuse import MARK_BYTES

__all__ = [
    "BadRegion",
    "Entry",
    "Tail",
    "WalItem",
    "begin_of",
    "first_entry",
    "missing_bundles",
    "sweep",
    "walk",
]

_SEARCH: Final = 1 << 20
_CHECK_WORK: Final = 4
"""How many times the size of the file a search for the next entry may checksum."""


class Entry(NamedTuple):
    """A good entry in ``[offset, end)`` of the file; ``frame`` views a copy of its bytes."""

    offset: int
    end: int
    frame: Frame
    damage: DamageError | None = None
    """Set when the entry is good although its length field was not."""

    @property
    def first_seq(self) -> int:
        """Its sequence: it is a run of one."""
        return self.frame.wal_seq

    @property
    def last_seq(self) -> int:
        """The same."""
        return self.frame.wal_seq


class BadRegion(NamedTuple):
    """Bytes ``[offset, end)`` that are no entries although a writer finished with them."""

    offset: int
    end: int
    error: DamageError


class Tail(NamedTuple):
    """Where the entries of the file end; what lies in ``[offset, end)`` was never finished.

    ``error`` is None if nothing lies there. ``is_torn`` tells an unfinished append, which holds
    nothing that was acknowledged, from bytes that are whole and wrong.
    """

    offset: int
    end: int
    error: DamageError | None
    is_torn: bool


WalItem: TypeAlias = Entry | BadRegion | Tail


def walk(
    file: File,
    start: int,
    *,
    entry_bytes_max: int,
    last_seq: int = -1,
    is_active: bool = True,
    generation: int | None = None,
) -> Iterator[WalItem]:
    """Go through a file from an entry boundary; the last item is always a Tail.

    ``last_seq`` is the sequence of the entry before ``start``. A file that is not active was
    finished and synced before its rotation, so anything wrong in it is damage, also at its end.
    One that is being used again, for another ``generation`` than is asked for, has nothing in it.
    """
    data = Content(file, entry_bytes_max, generation)
    if generation is not None and data.generation not in (None, generation):
        start = data.size
    items = _go_through(data, start, last_seq, is_active=is_active)
    yield from (item for item in items if not isinstance(item, StoredRun))  # There are none.


def sweep(
    file: File, start: int, *, entry_bytes_max: int, last_seq: int, is_active: bool, generation: int
) -> Iterator[WalItem | StoredRun]:
    """Do the same, and give good bundles that follow each other together, without their bytes."""
    data = Content(file, entry_bytes_max, generation)
    return _go_through(data, start, last_seq, is_active=is_active, generation=generation)


def _go_through(
    data: Content, start: int, last_seq: int, *, is_active: bool, generation: int | None = None
) -> Iterator[WalItem | StoredRun]:
    offset = start
    while offset < data.size:
        run = None if generation is None else data.run(offset, last_seq, generation)
        if run is not None:
            offset, last_seq = run.end, run.last_seq
            yield run
            continue
        item = _item_at(data, offset, last_seq)
        if isinstance(item, Entry):
            if item.frame.entry_type == BUNDLE:
                last_seq = item.frame.wal_seq
            yield item
        elif isinstance(item, BadRegion):
            if is_active and (item.end == data.size or data.is_end(item.end)):
                yield _tail(data, item)
                return
            yield item
        elif isinstance(item, Tail):
            yield item
            return
        offset = item if isinstance(item, int) else item.end
    yield Tail(max(offset, start), data.size, None, is_torn=False)


def _tail(data: Content, region: BadRegion) -> Tail:
    zeros = data.next_nonzero(region.offset) == data.size
    is_torn = zeros or isinstance(region.error, TornEntry) or data.ends_in_mark(region.offset)
    is_torn |= data.was_never_finished(region.offset, region.end)
    return Tail(region.offset, region.end, region.error, is_torn=is_torn)


def _item_at(data: Content, offset: int, last_seq: int) -> WalItem | int:
    """Say what is at a place; an int is the end of a hole."""
    try:
        frame = data.frame(offset)
        if _follows(frame, last_seq):
            return Entry(offset, offset + frame.end - frame.offset, frame)
        error: DamageError = DamagedEntry(
            "the sequence of an entry goes back",
            path=data._file.path,  # noqa: SLF001
            offset=offset,
            expected=f"above {last_seq}",
            found=frame.wal_seq,
        )
    except DamageError as caught:
        error = caught
        if data.is_end(offset):
            return Tail(offset, offset, None, is_torn=False)
        whole = data.frame_by_blocks(offset)
        if whole is not None and _follows(whole, last_seq):
            error = _wrong_length(data, offset, error)
            return Entry(offset, offset + whole.end - whole.offset, whole, error)
    found = _next_entry(data, offset, last_seq)
    if offset in (HEADER_BYTES, data.first):
        end = data.next_nonzero(offset)
        if end >= found:
            return found
        if (mark := data.end_near(end)) is not None:
            return mark
        if (torn := _torn_near(data, end)) is not None and found == data.size:
            return torn
    if found == data.size and data.generation is not None and not isinstance(error, TornEntry):
        mark = data.mark_behind(offset + 1)  # None is here: what is bad has some bytes.
        found = data.size if mark is None else mark
    return BadRegion(offset, found, error)


def _wrong_length(data: Content, offset: int, error: DamageError) -> DamageError:
    """Say it the same way each time: what is older behind the entry may be gone the next time."""
    if data.generation is None:
        return error
    return DamagedEntry("the length of an entry is wrong", path=error.path, offset=offset)


def _torn_near(data: Content, end: int) -> int | None:
    """Find an unfinished entry that is all there is behind a hole; it may begin with zeros.

    What is as long as it says, and wrong, is damage and not unfinished.
    """
    if ENTRY_BYTES_MIN <= _behind(data, end) - end <= data.size - end:
        return None
    for offset in range(end, max(data.first + 1, end - 3) - 1, -1):
        try:
            data.frame(offset)
        except TornEntry:
            return offset
        except DamageError:
            continue
    return None


def missing_bundles(path: str, offset: int, *, next_seq: int, found: int) -> DamagedEntry:
    """Say that bundles are nowhere although nothing is damaged where they should be.

    ``found`` is the sequence at this place of the log, and ``next_seq`` the one that should follow.
    """
    return DamagedEntry(
        f"{found - next_seq} bundles are missing from the log",
        path=path,
        offset=offset,
        expected=f"wal_seq {next_seq}",
        found=found,
        hint="a file of the log before this place is gone, or ends too early",
    )


def begin_of(file: File, generation: int, sidecar: Place | None) -> int:
    """Where the first entry of a file is, as far as the sidecar tells.

    The sidecar was durable before anything was given back, so a hole that reaches up to its
    place ends there: what follows begins an entry, also if that is damaged.
    """
    if sidecar is None or sidecar.generation != generation:
        return HEADER_BYTES
    data = Content(file, file.size(), generation)
    end = data.next_nonzero(data.first)
    if not data.first <= sidecar.offset <= end:
        return HEADER_BYTES
    # A length may begin with up to three zeros. If more follow, either the entry is gone, or the
    # hole is of a later time than this sidecar: then it ends with an entry.
    later = range(max(sidecar.offset + LENGTH.size, end - LENGTH.size + 1), end + 1)
    is_later = any(_good(data, offset, -1) for offset in later)
    mark = data.end_near(end)
    is_later |= mark is not None and mark > sidecar.offset
    return HEADER_BYTES if is_later else sidecar.offset


def _follows(frame: Frame, last_seq: int) -> bool:
    return frame.wal_seq > last_seq or frame.entry_type != BUNDLE


def _next_entry(data: Content, offset: int, last_seq: int) -> int:
    """Find where the next good entry behind the bad one at ``offset`` starts, or the file's end.

    First where the bad entry's own length says, so that entries inside its payload (a store of
    WAL files, say) are not taken for ours. Nor are they where nothing good is behind it, but its
    blocks are as long as it says. Otherwise anywhere: the search is vectorised over all places and
    checks plausible ones by checksum, with a bound on the bytes checksummed so that hostile bytes
    cannot make it quadratic.
    """
    while True:
        neighbour = _behind(data, offset)
        if _good(data, neighbour, last_seq):
            return neighbour
        if not data.blocks_fill(offset, last_seq):
            break
        offset = neighbour
    budget = _CHECK_WORK * data.size + _SEARCH
    offset = max(offset + 1, data.next_nonzero(offset) - 3)
    while offset + ENTRY_BYTES_MIN <= data.size:
        view, inside = data.view(offset, min(_SEARCH, data.size - offset))
        window = np.frombuffer(view[inside : inside + _SEARCH], np.uint8)
        for candidate in _plausible(
            window, rest=data.size - offset, limit=data.limit, last_seq=last_seq
        ):
            at = offset + int(candidate)
            if _good(data, at, last_seq):
                return at
            budget -= _behind(data, at) - at
            if budget < 0:
                return data.size
        if len(window) < _SEARCH:
            break
        offset += len(window) - ENTRY_BYTES_MIN + 1
    return data.size


def _behind(data: Content, offset: int) -> int:
    """Where an entry ends if its length is right."""
    view, inside = data.view(offset, ENTRY_OVERHEAD)
    return offset + int.from_bytes(view[inside : inside + 4], "little") + ENTRY_OVERHEAD


def _good(data: Content, offset: int, last_seq: int) -> bool:
    if offset + ENTRY_BYTES_MIN > data.size:
        return False
    try:
        return _follows(data.frame(offset), last_seq)
    except DamageError:
        return False


def _plausible(
    window: np.ndarray[tuple[int], np.dtype[np.uint8]], *, rest: int, limit: int, last_seq: int
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Places in a window where length, type and sequence could be those of an entry."""
    count = len(window) - HEAD.size - 4 + 1
    if count <= 0:
        return np.empty(0, np.int64)
    wide = window.astype(np.int64)
    length = sum(wide[i : i + count] << (8 * i) for i in range(4))
    places = np.arange(count)
    fits = (length >= HEAD.size) & (length <= limit) & (length + ENTRY_OVERHEAD + places <= rest)
    fits &= window[4 : 4 + count] <= NOTED
    found = np.flatnonzero(fits)
    if last_seq < 0:
        return found
    # Sequences grow by one a bundle: a plausible one is a little above the last, so its four
    # upper bytes are those of the last, or one more.
    upper = sum(wide[found + 17 + i] << (8 * i) for i in range(4))
    expected = (last_seq + 1) >> 32
    return found[(upper == expected) | (upper == expected + 1)]


def first_entry(file: File, offset: int, entry_bytes_max: int) -> Frame | None:
    """Read the entry at ``offset`` if there is a good one; a mark is as good as a checkpoint."""
    data = Content(file, entry_bytes_max)
    if not HEADER_BYTES <= offset < data.size:
        return None
    try:
        return data.frame(offset)
    except DamageError:
        seq = data.mark(offset)
    end = offset + MARK_BYTES
    if seq is None:
        return None
    return Frame(offset, end, CHECKPOINT, 0, seq, 0, memoryview(b""), (), 0)
