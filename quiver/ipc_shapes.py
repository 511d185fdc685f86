"""Streams of one batch that are laid out as one that was followed before: nothing compressed.

To follow the messages of a stream takes longer than Arrow takes to read it. A writer lays out all
streams of one schema alike, so one is followed, and every byte that decided is noted. A stream that
begins with the same schema, has the same bytes there, and the lengths of whose bodies lead from one
message to the next and to its end, would be followed in the same way. The answer goes one way only.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from quiver.ipc_messages import MessagePlace, stream_messages
from quiver.ipc_plain import deciding_bytes

__all__ = ["Shapes"]

_SHAPES_MAX: Final = 256
_BODY: Final = struct.Struct("<q").unpack_from
_END: Final = b"\xff\xff\xff\xff\0\0\0\0"


class Shapes:
    """How streams are laid out, by the bytes of their schema. Safe for several threads at once."""

    def __init__(self) -> None:
        """Know none."""
        self._known: dict[bytes, _Shape | None] = {}

    def is_plain(self, stream: memoryview, schema: bytes) -> bool:
        """Whether a stream that begins with ``schema`` is plainly one batch, uncompressed, whole.

        Then it is the schema, dictionaries, one batch and the end, each message where the one
        before ends. False says nothing. ``stream`` is bytes, one dimension.
        """
        shape = self._known.get(schema)
        return shape is not None and shape.fits(stream, len(schema))

    def learn(self, stream: memoryview, schema: bytes) -> None:
        """Follow a stream that is sound, unless one with this schema was."""
        if schema in self._known:
            return
        if len(self._known) >= _SHAPES_MAX:
            self._known.clear()
        messages = stream_messages(stream)
        is_first = messages is not None and messages[0].start == len(schema)
        self._known[schema] = _shape(stream, messages) if messages and is_first else None


class _Shape:
    """Of each message behind the schema: its length, where that of its body is, what is fixed."""

    def __init__(self, messages: Sequence[tuple[int, int, int, int]]) -> None:
        self._messages = messages

    def fits(self, stream: memoryview, place: int) -> bool:
        size = len(stream)
        for metadata_bytes, length_place, mask, fixed in self._messages:
            if place + metadata_bytes > size:
                return False
            metadata = bytes(stream[place : place + metadata_bytes])
            if int.from_bytes(metadata, "little") & mask != fixed:
                return False
            (body_bytes,) = _BODY(metadata, length_place)
            if not 0 <= body_bytes <= size:
                return False
            place += metadata_bytes + body_bytes
        return bytes(stream[place:]) == _END


def _shape(stream: memoryview, messages: Sequence[MessagePlace]) -> _Shape | None:
    """Note what is fixed in messages that were followed; None if one is not plain."""
    found = []
    for message in messages:
        metadata = stream[message.start : message.start + message.metadata_bytes]
        places = deciding_bytes(metadata)
        if places is None or not message.length_place:
            return None
        mask = bytearray(len(metadata))
        for place in places:
            mask[place] = 0xFF
        number = int.from_bytes(mask, "little")
        fixed = int.from_bytes(metadata, "little") & number
        found.append((message.metadata_bytes, message.length_place, number, fixed))
    return _Shape(found)
