"""Arrow IPC bytes that are wrong in the places that matter, and children to read them in.

Bytes changed by lot are mostly refused by the first check that sees them. So the mutants here know
where things are::

    stream    message | message | ... | end
    file      "ARROW1" 0 0 | messages | end | footer | footer length | "ARROW1"
    message   -1 i32 | metadata length i32 | metadata | body

and change lengths, offsets, counts and ids to what is special: 0, 1, one more or less, the greatest
and the least. Each mutant has one to three changes. Equal arguments give equal mutants.

Whoever reads such bytes without a check may die of them: ``children`` is where to read them, and
``arrow_zoo`` has streams and files to begin with.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

__all__ = ["arrow_mutants"]

_I32: Final = struct.Struct("<i")
_I64: Final = struct.Struct("<q")
_MAGIC: Final = b"ARROW1"
_FILE_START: Final = 8
_PREFIX: Final = 8
_SPECIAL_BYTES: Final = (0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF)
_DICTIONARY, _BATCH = 2, 3
_BATCH_OF: Final = {_DICTIONARY: 1, _BATCH: None}
_NODES, _BUFFERS = 1, 2
_CHANGE_COUNTS: Final = (1, 1, 1, 2, 3)
_IDS_MAX: Final = 4


@dataclass(frozen=True, slots=True)
class _Message:
    """One message: where it starts, its metadata, its body, what it is and where its items are."""

    start: int
    body: int
    end: int
    kind: int = 0
    dictionary_id: int | None = None
    items: tuple[int, ...] = ()
    """Places of the 64-bit numbers of its nodes and buffers: counts, offsets, lengths."""
    buffers: tuple[int, ...] = ()
    """Places in its body where a buffer starts."""

    @property
    def metadata(self) -> int:
        return self.start + _PREFIX


@dataclass(slots=True)
class _Draft:
    """Bytes that are being changed, and the messages that were in them at first."""

    data: bytearray
    messages: tuple[_Message, ...]
    lot: random.Random

    def put(self, place: int, value: int, *, wide: bool) -> None:
        """Write a number as far as the data goes."""
        size = 8 if wide else 4
        raw = (value % (1 << 8 * size)).to_bytes(size, "little")
        self.data[place : place + size] = raw[: max(0, len(self.data) - place)]

    def get(self, place: int, *, wide: bool) -> int:
        """Read a number; bytes behind the end count as 0."""
        size = 8 if wide else 4
        return int.from_bytes(self.data[place : place + size], "little", signed=True)

    def disturb(self, place: int, *, wide: bool) -> None:
        """Make a number special: an extreme, or a little more or less than it is."""
        top = 1 << (63 if wide else 31)
        now = self.get(place, wide=wide)
        near = (now + 1, now - 1, -now, now * 2, now + 8, now ^ (1 << self.lot.randrange(16)))
        far = (0, 1, -1, top - 1, -top, top >> 1, len(self.data), 1 << 32, 1 << 20)
        self.put(place, self.lot.choice(self.lot.choice((near, far))), wide=wide)

    def any_place(self, start: int, end: int, *, step: int = 1) -> int:
        """Choose a place in ``[start, end)`` that is aligned to ``step`` from ``start`` on."""
        return start + step * self.lot.randrange(max(1, (end - start) // step))

    def message(self, *, with_body: bool = False) -> _Message:
        """Choose a message, if need be of those with a body; the whole if there is none."""
        found = [m for m in self.messages if not with_body or m.end > m.body]
        size = len(self.data)
        whole = _Message(0, 0, size) if with_body else _Message(0, size, size)
        return self.lot.choice(found) if found else whole


_Change: TypeAlias = Callable[[_Draft], None]


def arrow_mutants(data: bytes, *, seed: int, count: int) -> Iterator[bytes]:
    """Give ``count`` changed copies of an IPC stream or file, the same for the same seed."""
    messages = tuple(_messages(data))
    for number in range(count):
        lot = random.Random(f"{seed} {number}")
        draft = _Draft(bytearray(data), messages, lot)
        for _ in range(lot.choice(_CHANGE_COUNTS)):
            lot.choice(_CHANGES)(draft)
        yield bytes(draft.data)


# changes ---------------------------------------------------------------------------------------


def _flip_bit(draft: _Draft) -> None:
    place = draft.any_place(0, len(draft.data))
    draft.data[place : place + 1] = bytes(
        b ^ 1 << draft.lot.randrange(8) for b in draft.data[place : place + 1]
    )


def _special_byte(draft: _Draft) -> None:
    message = draft.message()
    place = draft.any_place(message.start, message.body)
    draft.data[place : place + 1] = bytes([draft.lot.choice(_SPECIAL_BYTES)])


def _number_in_metadata(draft: _Draft) -> None:
    message = draft.message()
    wide = bool(draft.lot.getrandbits(1))
    step = 8 if wide else 4
    draft.disturb(draft.any_place(message.metadata, message.body, step=step), wide=wide)


def _count_or_offset(draft: _Draft) -> None:
    """Change what a batch says of the rows, nulls, places and sizes of its columns."""
    places = [place for message in draft.messages for place in message.items]
    if places:
        draft.disturb(draft.lot.choice(places), wide=True)


def _number_in_body(draft: _Draft) -> None:
    """Change what a buffer holds: offsets, sizes, views, indices, run ends, type ids."""
    message = draft.message(with_body=True)
    start = draft.lot.choice(message.buffers or (message.body,))
    wide = not draft.lot.randrange(3)
    near = min(start + 64, message.end)
    draft.disturb(draft.any_place(start, near, step=8 if wide else 4), wide=wide)


def _compressed_length(draft: _Draft) -> None:
    """Lie about the decoded length that a compressed buffer begins with."""
    places = [place for message in draft.messages for place in message.buffers]
    if places:
        draft.disturb(draft.lot.choice(places), wide=True)


def _dictionary_id(draft: _Draft) -> None:
    places = [m.dictionary_id for m in draft.messages if m.dictionary_id is not None]
    if places:
        draft.put(draft.lot.choice(places), draft.lot.randint(-1, _IDS_MAX), wide=True)


def _length_of_metadata(draft: _Draft) -> None:
    draft.disturb(draft.message().start + 4, wide=False)


def _cut_body(draft: _Draft) -> None:
    message = draft.message(with_body=True)
    place = draft.any_place(message.body, message.end)
    del draft.data[place : message.end]


def _cut_all(draft: _Draft) -> None:
    del draft.data[draft.any_place(0, len(draft.data)) :]


def _repeat(draft: _Draft) -> None:
    message = draft.message()
    draft.data[message.end : message.end] = draft.data[message.start : message.end]


def _remove(draft: _Draft) -> None:
    message = draft.message()
    del draft.data[message.start : message.end]


def _swap(draft: _Draft) -> None:
    first, second = sorted((draft.message(), draft.message()), key=lambda message: message.start)
    if first.end <= second.start:
        data = draft.data
        between = data[first.end : second.start]
        parts = data[second.start : second.end], between, data[first.start : first.end]
        data[first.start : second.end] = b"".join(parts)


_CHANGES: Final[Sequence[_Change]] = (
    *[_number_in_body] * 12,
    *[_count_or_offset] * 4,
    *[_number_in_metadata, _compressed_length, _flip_bit] * 2,
    _special_byte,
    _dictionary_id,
    _length_of_metadata,
    _cut_body,
    _cut_all,
    _repeat,
    _remove,
    _swap,
)
"""What gets furthest into a reader comes up most."""


# framing ---------------------------------------------------------------------------------------


def _messages(data: bytes) -> Iterator[_Message]:
    """Find the messages of a stream or file that is as Arrow wrote it."""
    offset = _FILE_START if data.startswith(_MAGIC) else 0
    while offset + _PREFIX <= len(data):
        (length,) = _I32.unpack_from(data, offset + 4)
        if length <= 0:
            return
        message = _message(data, offset, length)
        yield message
        offset = message.end


def _message(data: bytes, start: int, length: int) -> _Message:
    metadata, body = start + _PREFIX, start + _PREFIX + length
    root = _follow(data, metadata)
    kind_at, size_at = _field(data, root, 1), _field(data, root, 3)
    kind = data[kind_at] if kind_at else 0
    end = body + (_I64.unpack_from(data, size_at)[0] if size_at else 0)
    header = _field(data, root, 2)
    if kind not in _BATCH_OF or not header:
        return _Message(start, body, end, kind)
    table, dictionary_id = _follow(data, header), None
    inner = _BATCH_OF[kind]
    if inner is not None:
        dictionary_id = _field(data, table, 0) or None
        table = _follow(data, _field(data, table, inner))
    nodes, buffers = (list(_pairs(data, table, number)) for number in (_NODES, _BUFFERS))
    rows = _field(data, table, 0)
    items = [place + half for place in nodes + buffers for half in (0, 8)]
    starts = tuple(
        body + _I64.unpack_from(data, place)[0]
        for place in buffers
        if _I64.unpack_from(data, place + 8)[0]
    )
    return _Message(
        start, body, end, kind, dictionary_id, (*items, *([rows] if rows else [])), starts
    )


def _follow(data: bytes, place: int) -> int:
    """Go where an unsigned offset at a place points."""
    return place + int.from_bytes(data[place : place + 4], "little")


def _field(data: bytes, table: int, number: int) -> int:
    """Find a field of a FlatBuffers table; 0 if it is not there."""
    vtable = table - _I32.unpack_from(data, table)[0]
    size = int.from_bytes(data[vtable : vtable + 2], "little")
    entry = vtable + 4 + 2 * number
    offset = int.from_bytes(data[entry : entry + 2], "little") if entry < vtable + size else 0
    return table + offset if offset else 0


def _pairs(data: bytes, table: int, number: int) -> Iterator[int]:
    """Give the places of the 16-byte structs in a vector."""
    place = _field(data, table, number)
    if place:
        vector = _follow(data, place)
        count = int.from_bytes(data[vector : vector + 4], "little")
        yield from range(vector + 4, vector + 4 + 16 * count, 16)
