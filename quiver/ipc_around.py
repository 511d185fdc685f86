"""A stream of one batch becomes an Arrow file by what is put around it; no byte of it moves.

::

    "ARROW1" 0 0 | schema | dictionaries | batch | end | footer | length i32 | "ARROW1"
                   ------------- the stream -----------

The messages of streams with one schema differ in the lengths of their bodies and in little else. So
the first one is read in full; of the next ones only these lengths are, and that every message ends
where another begins, which is as long as its like in the first, and the last one where the stream
does.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from quiver.errors import DamagedEntry
from quiver.ipc_build import FIRST_BLOCK, footer_around
from quiver.ipc_messages import MessagePlace, message_schema, stream_messages

__all__ = ["FILE_HEAD", "FileAround"]

FILE_HEAD: Final = b"ARROW1\0\0"
"""What stands in front of the stream."""
_MAGIC: Final = b"ARROW1"
_END: Final = b"\xff\xff\xff\xff\0\0\0\0"
_CONTINUATION: Final = 0xFFFFFFFF
_PREFIX_BYTES: Final = 8
_BLOCK: Final = "qi4xq"


class FileAround:
    """What is put around streams of one schema."""

    def __init__(self, stream: memoryview, messages: Sequence[MessagePlace]) -> None:
        """Learn it from one of them, which has these messages."""
        self.messages = messages
        dictionaries = messages[:-1]
        self._start = messages[0].start
        self._shapes = [
            # The prefix of a message, and where its metadata says how long its body is.
            (struct.Struct(f"<II{m.length_place - _PREFIX_BYTES}xQ").unpack_from, m.metadata_bytes)
            for m in messages
        ]
        # The count of batches stands between the blocks of dictionaries and that of the batch.
        self._blocks = struct.Struct(f"<{_BLOCK * len(dictionaries)}4xI{_BLOCK}")
        none = bytes(24)
        footer = footer_around(message_schema(stream), none * len(dictionaries), none)
        behind = FIRST_BLOCK + self._blocks.size
        self._front = footer[:FIRST_BLOCK]
        self._back = footer[behind:] + struct.pack("<i", len(footer)) + _MAGIC

    @classmethod
    def of(cls, stream: memoryview) -> FileAround | None:
        """Learn it from a stream; None unless that is a schema, dictionaries, a batch, the end."""
        messages = stream_messages(stream)
        if messages is None or any(message.length_place == 0 for message in messages):
            return None
        try:
            return cls(stream, messages)
        except (struct.error, DamagedEntry):
            return None

    def tail(self, stream: memoryview) -> bytes | None:
        """Give what stands behind a stream of the same schema; None if it is of another shape."""
        place = self._start
        values: list[int] = []
        try:
            for unpack, size in self._shapes:
                mark, metadata_bytes, body_bytes = unpack(stream, place)
                if mark != _CONTINUATION or metadata_bytes != size - _PREFIX_BYTES:
                    return None
                if body_bytes > len(stream):
                    return None
                values += (place + len(FILE_HEAD), size, body_bytes)
                place += size + body_bytes
            if bytes(stream[place:]) != _END:
                return None
            values.insert(-3, 1)
            return self._front + self._blocks.pack(*values) + self._back
        except struct.error:
            return None
