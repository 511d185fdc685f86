"""Attributes, back from their table to what they belong to."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from quiver.otel.otlp.rows import Rows
from quiver.otel.otlp.values_out import untold, write_values
from quiver.otel.wire import Ints, Messages

__all__ = ["write_attributes"]


def write_attributes(
    out: Messages, number: int, payload: tuple[pa.RecordBatch | None, str], *, of: Ints, room: int
) -> None:
    """Add attributes as a field to messages, whose ids are ``of``; -1 is one without any.

    ``payload`` is their table and its slot, None if there is none. Rows of it may be in any order:
    those of one id stay in theirs. What belongs to no message is left out, and what belongs to
    several is written to each. Values may hold messages ``room`` deep.
    """
    batch, name = payload
    if batch is None or not batch.num_rows:
        return
    rows = Rows.of(batch, name)
    rows, counts = rows.below(of)
    if not rows.count:
        return
    none = untold(rows)
    values = write_values(rows.take(np.flatnonzero(~none)) if none.any() else rows, room=room)
    pairs = Messages(rows.count)
    key = rows.texts("key")
    if key is not None:
        pairs.text(1, key)
    pairs.children(2, values, (~none).astype(np.int64))
    out.children(number, pairs, counts)
