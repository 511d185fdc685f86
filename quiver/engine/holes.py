"""Bundles of sources behind a hole in the log: a state must not stand where one before it is lost.

Entries that were written before one sync may reach the disk out of order, so a power cut, or a sync
that failed, can lose one and keep those behind it. A bundle without a source is given all the same
(it is not told from rot). One with the state of a source would say that the lost one was read: it
is taken out, and the source is read again from before the hole. None of them was acknowledged.

Rot in an entry that was acknowledged leaves the same picture, and must cost no other entry. What
tells: the note of each bundle says how many before it were not known to be durable. If any note
says that all of a hole was durable once, it is rot, and everything behind it stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from quiver.config import HARD_LIMITS
from quiver.disk import Disk
from quiver.errors import DamageError
from quiver.payload import EncodedBundle
from quiver.progress import LAG_MAX, Note, decode_note
from quiver.stored_run import StoredRun
from quiver.wal import Replay
from quiver.wal.files import WalFile, open_files
from quiver.wal.format import BUNDLE, CHECKPOINT, HEADER_BYTES, Place, decode_header
from quiver.wal.reader import Entry, begin_of, walk
from quiver.wal.truncate import read_sidecar

__all__ = ["Doubt", "Logged", "durable_below", "read_logged", "standing"]


class Logged(NamedTuple):
    """An entry of the log: the numbers that it uses up end before ``next_seq``."""

    first_seq: int
    next_seq: int
    note: bytes | None = None


def durable_below(entries: Iterable[Logged]) -> int:
    """Give the number below which all was durable once, as far as notes of bundles say."""
    found = 0
    for wal_seq, _, data in entries:
        if data is not None:
            with suppress(DamageError):
                lag = decode_note(data).lag
                found = max(found, wal_seq - lag if lag < LAG_MAX else 0)
    return found


def standing(entries: Iterable[Logged], covered_seq: int) -> Iterator[tuple[int, Note]]:
    """Give the notes of a whole log that count, as an opening would find it.

    ``covered_seq`` is the highest number that segments hold or held.
    """
    known = list(entries)
    durable = durable_below(known)
    next_seq, hole_end = covered_seq + 1, 0
    for entry in known:
        if entry.first_seq > next_seq:
            hole_end = entry.first_seq
        next_seq = max(next_seq, entry.next_seq)
        if entry.note is not None and (entry.next_seq <= covered_seq + 1 or durable >= hole_end):
            yield entry.first_seq, decode_note(entry.note)


class Doubt:
    """Whether bundles with a state may stay that an opening finds behind a hole."""

    def __init__(self, disk: Disk, folder: str, digest: bytes) -> None:
        """Read nothing of the log before it is asked about a hole."""
        self._log = disk, folder, digest
        self._durable_below: int | None = None

    def loses(self, hole_end: int) -> bool:
        """Whether such a bundle is taken out behind a hole that ends at this number; 0 is none."""
        if hole_end and self._durable_below is None:
            self._durable_below = durable_below(read_logged(*self._log))
        return (self._durable_below or 0) < hole_end

    def pass_on(
        self, replay: Replay, *, strict: bool
    ) -> Iterator[tuple[EncodedBundle, Place] | StoredRun]:
        """Give what a replay gives, each by itself if ``strict``; what may not stay is struck."""
        for found in replay if strict else replay.swept():
            is_noted = not isinstance(found, StoredRun) and found[0].note is not None
            if is_noted and self.loses(replay.hole_end):
                replay.strike()
            else:
                yield found


def read_logged(disk: Disk, folder: str, digest: bytes) -> Iterator[Logged]:
    """Read which numbers the entries that a log still has use up, and what they say.

    All of it is durable then. What is damaged is passed over, as in a recovery.
    """
    with open_files(disk, folder, newest=None) as files:
        sidecar, _ = read_sidecar(disk, folder)
        for wal_file in files:
            wal_file.file.settle()
            decode_header(wal_file.file.read(0, HEADER_BYTES), digest)
            start = begin_of(wal_file.file, wal_file.generation, sidecar)
            yield from _entries(wal_file, start)


def _entries(wal_file: WalFile, start: int) -> Iterator[Logged]:
    items = walk(
        wal_file.file,
        start,
        entry_bytes_max=HARD_LIMITS.entry_bytes,
        is_active=wal_file.is_active,
        generation=wal_file.generation,
    )
    for item in items:
        if isinstance(item, Entry):
            kind, wal_seq, note = item.frame.entry_type, item.frame.wal_seq, item.frame.note
            if kind == BUNDLE:
                yield Logged(wal_seq, wal_seq + 1, None if note is None else bytes(note))
            elif kind == CHECKPOINT:
                yield Logged(wal_seq + 1, wal_seq + 1)
            else:
                yield Logged(0, 1 << 64)  # Only a newer Quiver knows what it used up.
