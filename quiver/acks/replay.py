"""Read a whole ack.log: every sound record, and what else there was.

What is not sound ends in one of two ways:

==================  ==========================================  ==================
where               what it is                                  what becomes of it
==================  ==========================================  ==================
behind the last     torn: short or never filled in; what a      cut, no damage
sound record        power cut during an append leaves
anywhere else, or   damaged                                     reported, set aside
filled in wrong
==================  ==========================================  ==================

Frames have one size, so the next sound one is always found, and nothing costs more than itself.

Frames are looked at all together first. A stretch of records of one sound frame each, with numbers
that grow, is taken as it is; every other frame is looked at by itself, with those before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from quiver.acks.format import (
    FRAME_LAYOUT,
    FRAME_SIZE,
    HEADER_SIZE,
    KIND_ACK,
    KIND_DEAD_LETTER,
    KIND_DROPPED,
    KIND_FLOOR,
    KIND_NACK,
    KIND_REGISTER,
    KIND_RENAME,
    Frame,
    decode_frame,
    decode_header,
    decode_record,
)
from quiver.acks.merging import Runs, as_entries, joined, united
from quiver.acks.records import Ack, Record
from quiver.acks.sums import frame_sums
from quiver.errors import DamagedEntry, DamageError, TornEntry

__all__ = ["FRAME", "LogContent", "read_log"]

FRAME: Final = np.dtype(
    [
        ("kind", "<u1"),
        ("part", "<u1"),
        ("part_count", "<u1"),
        ("flags", "<u1"),
        ("subscriber_id", "<u2"),
        ("reason", "<u2"),
        ("record_seq", "<u8"),
        ("at_ns", "<i8"),
        ("segment_seq", "<u8"),
        ("bundle_first", "<u4"),
        ("bundle_count", "<u4"),
        ("not_before_ns", "<i8"),
        ("lease", "<u8"),
        ("attempt", "<u4"),
        ("crc32c", "<u4"),
    ]
)
"""A frame with the body of an outcome."""
_NAMED: Final = (0, KIND_REGISTER, KIND_RENAME, KIND_FLOOR)
_BY_ITSELF: Final = np.array([kind not in _NAMED for kind in range(256)])
"""Which kinds may be sound in one frame whatever their body says, but for a run."""
_HAS_RUN: Final = np.isin(range(256), (KIND_ACK, KIND_NACK, KIND_DROPPED, KIND_DEAD_LETTER))
_BUNDLES_MAX: Final = 1 << 32
_PIECE: Final = 1 << 14
"""Frames that are looked at together: what is made of them has room in the processor's cache."""

Frames: TypeAlias = npt.NDArray[np.void]


@dataclass(slots=True)
class LogContent:
    """What the bytes of a log hold.

    ``base_seq`` is None if the header is not sound. ``entries`` pairs records with the
    ``record_seq`` of their last frame, acks united as ``merging`` says; ``record_count`` is how
    many records they were. ``kept`` are half-open byte ranges of sound records, also of kinds not
    known; ``end`` is behind the last of them. ``faults`` are in order of offset, one for each
    stretch of unsound bytes and kind of fault: the first one in it.
    """

    base_seq: int | None = None
    entries: list[tuple[int, Record]] = field(default_factory=list)
    record_count: int = 0
    kept: list[tuple[int, int]] = field(default_factory=list)
    faults: list[DamageError] = field(default_factory=list)
    end: int = HEADER_SIZE
    last_seq: int = 0
    _unsound_end: int = -1

    def report(self, error: DamageError, stop: int) -> None:
        """Note that the bytes from the error's offset up to ``stop`` are unsound."""
        follows = error.offset == self._unsound_end and type(error) is type(self.faults[-1])
        self._unsound_end = stop
        if not follows:
            self.faults.append(error)

    def keep(self, start: int, stop: int, *, last_seq: int) -> None:
        """Note that the bytes from ``start`` to ``stop`` are sound records."""
        self.last_seq = last_seq
        if self.kept and self.kept[-1][1] == start:
            start = self.kept.pop()[0]
        self.kept.append((start, stop))
        self.end = stop


def read_log(data: bytes, *, covered: int = 0) -> LogContent:
    """Read a log from its bytes. Only VersionError is raised; what is wrong is in ``faults``.

    ``entries`` are without the records up to the number ``covered``, which a checkpoint has.
    """
    content = LogContent()
    try:
        content.base_seq = decode_header(data)
        content.last_seq = max(content.base_seq - 1, 0)
    except DamageError as error:
        content.report(error, HEADER_SIZE)
    walk = _Walk(data, content)
    walk.go()
    walk.gather(covered)
    _forget_torn_tail(content)
    return content


class _Walk:
    """One pass over the frames of a log."""

    def __init__(self, data: bytes, content: LogContent) -> None:
        self._data = data
        self._content = content
        self._count = max(0, len(data) - HEADER_SIZE) // FRAME_SIZE
        self._frames = np.frombuffer(data, FRAME, self._count, HEADER_SIZE if self._count else 0)
        self._simple = np.empty(self._count, bool)
        self._seqs = np.empty(self._count, np.uint64)
        for piece in self._pieces():
            frames = self._frames[piece]
            self._simple[piece] = _simple(data, frames, start=_at(piece.start))
            self._seqs[piece] = frames["record_seq"]
        self._taken = np.zeros(self._count, bool)
        self._waiting: list[Frame] = []
        self._others: list[tuple[int, Record]] = []

    def go(self) -> None:
        """Take every sound record and report all else."""
        seqs = self._seqs
        follows = self._simple[1:] & self._simple[:-1] & (seqs[1:] > seqs[:-1])
        stops = np.append(np.flatnonzero(~follows), self._count - 1) + 1
        index = 0
        while index < self._count:
            is_new = self._simple[index] and int(seqs[index]) > self._content.last_seq
            if is_new and not self._waiting:
                stop = int(stops[np.searchsorted(stops, index, side="right")])
                self._taken[index:stop] = True
                self._content.keep(_at(index), _at(stop), last_seq=int(seqs[stop - 1]))
                index = stop
            else:
                self._look(index)
                index += 1
        if len(self._data) > _at(self._count):
            self._look(self._count)
        self._set_aside(_at(self._count))

    def gather(self, covered: int) -> None:
        """Put the records above ``covered`` into the content, in order of number."""
        parts = []
        stretch = 0
        for piece in self._pieces():
            frames, taken = self._frames[piece], self._taken[piece]
            counts = taken & (self._seqs[piece] > covered)
            acks = taken & (frames["kind"] == KIND_ACK)
            stretches = np.cumsum(~acks) + stretch
            stretch = int(stretches[-1])
            found = acks & counts
            self._content.record_count += int(np.count_nonzero(found))
            parts.append(united(_runs(frames, stretches, found)))
            for frame in frames[counts & ~acks]:
                self._keep_other(frame.tobytes())
        others = [entry for entry in self._others if entry[0] > covered]
        self._content.record_count += len(others)
        runs = as_entries(united(joined(parts))) if parts else []
        self._content.entries = sorted([*runs, *others], key=_number)

    def _pieces(self) -> Iterator[slice]:
        for start in range(0, self._count, _PIECE):
            yield slice(start, min(start + _PIECE, self._count))

    def _keep_other(self, data: bytes) -> None:
        """Keep the record in one sound frame."""
        frame = Frame(*FRAME_LAYOUT.unpack(data)[:-1])
        record = decode_record([frame])
        if record is not None:
            self._others.append((frame.record_seq, record))

    def _look(self, index: int) -> None:
        """Take one frame by itself, or what there is of it, with those that wait for it."""
        start, stop = _at(index), _at(index + 1)
        try:
            frame = decode_frame(self._data[start:stop])
            _check_order(frame, self._waiting, self._content.last_seq)
        except DamageError as error:
            self._set_aside(start)
            self._content.report(error.at("", base=start), stop)
            return
        if frame.part == 0:
            self._set_aside(start)
        self._waiting.append(frame)
        if frame.part + 1 == frame.part_count:
            self._take(index)

    def _take(self, index: int) -> None:
        """Keep the record whose frames are all there; its last one is at ``index``."""
        frames, self._waiting = self._waiting, []
        start, stop = _at(index + 1 - len(frames)), _at(index + 1)
        last_seq = self._content.last_seq = frames[-1].record_seq
        try:
            record = decode_record(frames)
        except DamageError as error:
            self._content.report(error.at("", base=start), stop)
            return
        if frames[-1].part_count == 1 and isinstance(record, Ack):
            self._taken[index] = True
        elif record is not None:
            self._others.append((last_seq, record))
        self._content.keep(start, stop, last_seq=last_seq)

    def _set_aside(self, stop: int) -> None:
        """Report the frames of a record whose rest never came; ``stop`` is the byte behind them."""
        if self._waiting:
            error = TornEntry(
                "the record lacks its last frames",
                offset=stop - len(self._waiting) * FRAME_SIZE,
                expected=self._waiting[0].part_count,
                found=len(self._waiting),
            )
            self._content.report(error, stop)
            self._waiting.clear()


def _at(index: int) -> int:
    return HEADER_SIZE + index * FRAME_SIZE


def _number(entry: tuple[int, Record]) -> int:
    return entry[0]


def _runs(frames: Frames, stretches: npt.NDArray[np.intp], found: npt.NDArray[np.bool_]) -> Runs:
    frames, stretches = (frames, stretches) if found.all() else (frames[found], stretches[found])
    first = frames["bundle_first"].astype(np.int64)
    return Runs(
        frames["subscriber_id"],
        stretches,
        frames["segment_seq"],
        first,
        first + frames["bundle_count"],
        frames["lease"],
        frames["record_seq"],
        frames["at_ns"],
    )


def _simple(data: bytes, frames: Frames, *, start: int) -> npt.NDArray[np.bool_]:
    """Say which frames are sound records by themselves, if their numbers are."""
    sums = frame_sums(data, start=start, count=len(frames))
    kind, first, count = (frames[name] for name in ("kind", "bundle_first", "bundle_count"))
    is_run = (count > 0) & (first.astype(np.int64) + count <= _BUNDLES_MAX)
    simple: npt.NDArray[np.bool_] = (
        (sums == frames["crc32c"])
        & (frames["part"] == 0)
        & (frames["part_count"] == 1)
        & _BY_ITSELF[kind]
        & (is_run | ~_HAS_RUN[kind])
    )
    return simple


def _check_order(frame: Frame, waiting: list[Frame], last_seq: int) -> None:
    """Refuse a frame that is old, or that continues a record which is not the one before it."""
    before = waiting[-1] if waiting else None
    newest = before.record_seq if before else last_seq
    if frame.record_seq <= newest:
        raise DamagedEntry(
            "the record_seq does not grow", expected=f"above {newest}", found=frame.record_seq
        )
    if frame.part and (
        before is None
        or (frame.kind, frame.part, frame.part_count, frame.record_seq)
        != (before.kind, before.part + 1, before.part_count, before.record_seq + 1)
    ):
        raise DamagedEntry("the frame continues no record", expected="part 0", found=frame.part)


def _forget_torn_tail(content: LogContent) -> None:
    """Drop the faults that an append leaves when the power goes: nothing sound is behind them."""
    faults = content.faults
    while faults and isinstance(faults[-1], TornEntry) and faults[-1].offset >= content.end:
        faults.pop()
