"""Frames as Flight carries them: the head, and the body behind it or as a batch's only value."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from quiver.chain.peers import arrows_own
from quiver.chain.wire.format import (
    FRAME_BYTES,
    check_body,
    check_length,
    decode_frame,
    encode_frame,
    frame_of,
)
from quiver.chain.wire.messages import Frame
from quiver.errors import DamagedEntry

__all__ = [
    "BEHIND_BYTES_MAX",
    "SCHEMA",
    "buffers_of",
    "joined",
    "send_frame",
    "sent",
    "taken",
    "with_body",
]

SCHEMA = pa.schema([pa.field("body", pa.large_binary(), nullable=False)])
BEHIND_BYTES_MAX: Final = 64 << 10
"""Bodies up to this go behind their head: a batch of them costs more than a copy."""
_OFFSETS: Final = struct.Struct("<qq")
# Not ``pa.array``, which would load pandas, where it is there, into each node and client.
_NOTHING: Final = pa.RecordBatch.from_arrays([pa.nulls(0, pa.large_binary())], schema=SCHEMA)


def with_body(
    frame: Frame, body: bytes | memoryview = b"", own: pa.Buffer | None = None
) -> tuple[pa.RecordBatch, pa.Buffer]:
    """Give a batch and what goes beside it, with the checksum of the body.

    ``own`` is the same body in memory of Arrow's own, if it is there; else a copy is made.
    """
    return _around(frame_of(frame, body) if body else frame, body, own)


def send_frame(
    writer: Any,  # noqa: ANN401
    frame: Frame,
    body: bytes | memoryview = b"",
    *,
    own: pa.Buffer | None = None,
) -> None:
    """Send a frame down a stream of Flight; ``own`` as ``with_body`` has it.

    Without a checksum of the body: entries have their own, and whoever takes them in looks at each.
    """
    if body:
        frame = frame._replace(body_len=len(body))
    if len(body) <= BEHIND_BYTES_MAX:
        writer.write_metadata(arrows_own(encode_frame(frame), body))
    else:
        writer.write_with_metadata(*_around(frame, body, own))


def _around(
    frame: Frame, body: bytes | memoryview, own: pa.Buffer | None
) -> tuple[pa.RecordBatch, pa.Buffer]:
    if len(body) <= BEHIND_BYTES_MAX:
        return _NOTHING, arrows_own(encode_frame(frame), body)
    return _batch_of(own or arrows_own(body)), arrows_own(encode_frame(frame))


def _batch_of(body: pa.Buffer) -> pa.RecordBatch:
    offsets = arrows_own(_OFFSETS.pack(0, len(body)))
    values = pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, body])
    return pa.RecordBatch.from_arrays([values], schema=SCHEMA)


def taken(chunk: Any) -> tuple[Frame, memoryview]:  # noqa: ANN401
    """Read a frame, and check its body; raises DamageError."""
    frame, body = sent(chunk)
    check_body(frame, body)
    return frame, body


def sent(chunk: Any) -> tuple[Frame, memoryview]:  # noqa: ANN401
    """Read a frame that was sent down a stream, and leave it to others to look at its entries."""
    if chunk.app_metadata is None:
        raise DamagedEntry("a frame has no head")
    beside = memoryview(chunk.app_metadata)
    frame, body = decode_frame(beside[:FRAME_BYTES]), beside[FRAME_BYTES:]
    if chunk.data is not None and chunk.data.num_rows:
        if body:
            raise DamagedEntry("a frame has two bodies")
        body = _value(chunk.data)
    check_length(frame, body)
    return frame, body


def _value(batch: pa.RecordBatch) -> memoryview:
    """Give its only value; Flight checks nothing of where a value begins and ends."""
    try:
        is_one = (batch.num_columns, batch.num_rows) == (1, 1)
        if not is_one or batch.column(0).type != pa.large_binary():
            raise DamagedEntry("a frame has another body than one value")
        batch.validate(full=True)
    except pa.ArrowInvalid as error:
        raise DamagedEntry("the body of a frame is no value", found=str(error)[:100]) from error
    if batch.column(0).null_count:
        raise DamagedEntry("a frame has another body than one value")
    return memoryview(batch.column(0)[0].as_buffer())


def buffers_of(body: memoryview) -> tuple[pa.Buffer | None, pa.Buffer | None]:
    """Give the buffer that a body which was sent is all of, and the one that has its head, too."""
    buffer: Any = body.obj
    if not isinstance(buffer, pa.Buffer):
        return None, None
    around = len(buffer) - len(body)
    return buffer if not around else None, buffer if around == FRAME_BYTES else None


def joined(bodies: Sequence[memoryview]) -> memoryview:
    """Lay bodies one behind the other; a single one is not copied."""
    return bodies[0] if len(bodies) == 1 else memoryview(b"".join(bodies))
