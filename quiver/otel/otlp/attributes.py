"""Attributes: a table of keys and values, each row with the id of what it belongs to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from quiver.errors import InputError
from quiver.otel.otlp.columns import Columns, words
from quiver.otel.otlp.few import read_few
from quiver.otel.otlp.limits import Limits
from quiver.otel.otlp.regular import read_regular
from quiver.otel.otlp.values import Values, read_values
from quiver.otel.wire import FEW, Ranges, Source, binaries, last_texts, read, span

__all__ = ["check_parts", "read_attributes"]

_KEY, _VALUE = 1, 2


def read_attributes(
    source: Source,
    parts: Ranges,
    *,
    ids: pa.DataType,
    limits: Limits,
    depth: int,
) -> pa.RecordBatch | None:
    """Give a table of attributes, None if there are none.

    ``parts`` are the KeyValue messages, each with the id of its parent; ``ids`` is the type of
    these, and ``depth`` says how deep in the request the values of attributes lie.
    """
    count = parts.size
    if not count:
        return None
    check_parts(count, limits)
    if count > FEW and (regular := read_regular(source, parts, ids=ids)) is not None:
        return regular
    room = limits.depth - depth
    found = read_few(source, parts, room=room) if count <= FEW else None
    keys, values = _read_many(source, parts, room) if found is None else found
    columns = Columns()
    columns.add("parent_id", pa.array(parts.owner.astype(ids.to_pandas_dtype())), nullable=False)
    columns.add("key", keys, nullable=False)
    values.add_to(columns)
    return columns.batch()


def _read_many(source: Source, parts: Ranges, room: int) -> tuple[pa.Array[Any], Values]:
    count = parts.size
    level = read(source, parts.each_its_own(), [span(_KEY), span(_VALUE)], count=count)
    keys = _keys(source, last_texts(source, level, _KEY))
    return keys, read_values(source, level.ranges(_VALUE), count=count, room=room, told=True)


def check_parts(count: int, limits: Limits) -> None:
    """Raise InputError if a request has more messages of one kind than it may."""
    if count > limits.parts:
        raise InputError(f"a request with {count} attributes; at most {limits.parts} are taken")


def _keys(source: Source, at: tuple[Any, Any]) -> pa.Array[Any]:
    start, end = at
    missing = start < 0
    if missing.any():  # No key is the empty key: a range without bytes.
        start, end = np.where(missing, 0, start), np.where(missing, 0, end)
    return words(binaries(source, start, end), start, least=8)
