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
"""

from __future__ import annotations

from dataclasses import dataclass, field

from quiver.acks.format import (
    FRAME_SIZE,
    HEADER_SIZE,
    Frame,
    decode_frame,
    decode_header,
    decode_record,
)
from quiver.acks.records import Record
from quiver.errors import DamagedEntry, DamageError, TornEntry

__all__ = ["LogContent", "read_log"]


@dataclass(slots=True)
class LogContent:
    """What the bytes of a log hold.

    ``base_seq`` is None if the header is not sound. ``entries`` pairs each record with the
    ``record_seq`` of its last frame. ``kept`` are half-open byte ranges of sound records, also of
    kinds not known; ``end`` is behind the last of them. ``faults`` are in order of offset, one for
    each stretch of unsound bytes and kind of fault: the first one in it.
    """

    base_seq: int | None = None
    entries: list[tuple[int, Record]] = field(default_factory=list)
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


def read_log(data: bytes) -> LogContent:
    """Read a log from its bytes. Only VersionError is raised; what is wrong is in ``faults``."""
    content = LogContent()
    try:
        content.base_seq = decode_header(data)
        content.last_seq = max(content.base_seq - 1, 0)
    except DamageError as error:
        content.report(error, HEADER_SIZE)
    waiting: list[Frame] = []
    for offset in range(HEADER_SIZE, len(data), FRAME_SIZE):
        try:
            frame = decode_frame(data[offset : offset + FRAME_SIZE])
            _check_order(frame, waiting, content.last_seq)
        except DamageError as error:
            _set_aside(content, waiting, offset)
            content.report(error.at("", base=offset), offset + FRAME_SIZE)
            continue
        if frame.part == 0:
            _set_aside(content, waiting, offset)
        waiting.append(frame)
        if frame.part + 1 == frame.part_count:
            _take(content, waiting, offset + FRAME_SIZE)
    _set_aside(content, waiting, len(data) - (len(data) - HEADER_SIZE) % FRAME_SIZE)
    _forget_torn_tail(content)
    return content


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


def _take(content: LogContent, waiting: list[Frame], stop: int) -> None:
    """Keep the record whose frames are all there; ``stop`` is the byte behind them."""
    start = stop - len(waiting) * FRAME_SIZE
    content.last_seq = waiting[-1].record_seq
    try:
        record = decode_record(waiting)
    except DamageError as error:
        content.report(error.at("", base=start), stop)
    else:
        if record is not None:
            content.entries.append((content.last_seq, record))
        if content.kept and content.kept[-1][1] == start:
            start = content.kept.pop()[0]
        content.kept.append((start, stop))
        content.end = stop
    waiting.clear()


def _set_aside(content: LogContent, waiting: list[Frame], stop: int) -> None:
    """Report the frames of a record whose rest never came; ``stop`` is the byte behind them."""
    if waiting:
        error = TornEntry(
            "the record lacks its last frames",
            offset=stop - len(waiting) * FRAME_SIZE,
            expected=waiting[0].part_count,
            found=len(waiting),
        )
        content.report(error, stop)
        waiting.clear()


def _forget_torn_tail(content: LogContent) -> None:
    """Drop the faults that an append leaves when the power goes: nothing sound is behind them."""
    faults = content.faults
    while faults and isinstance(faults[-1], TornEntry) and faults[-1].offset >= content.end:
        faults.pop()
