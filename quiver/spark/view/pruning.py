"""Which buckets can have rows that pass Spark's filters: those of the keys that are asked for.

A filter that says exactly which values each column of the key may have leaves a few keys, and each
is in the bucket of its hash.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from math import prod
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import datasource as s

from quiver.spark.filters import exact_value
from quiver.upsert.rows import KEY, Definition
from quiver.upsert.rows.hashing import buckets_of as buckets_of_hashes
from quiver.upsert.rows.hashing import key_hashes
from quiver.upsert.rows.keys import key_bytes
from quiver.upsert.viewing.columns import Layout

__all__ = ["buckets_of"]

_KEYS_MAX: Final = 1000
"""For more keys than that nothing is left out: they are in most buckets anyway."""


def buckets_of(
    filters: Iterable[Any], definition: Definition, *, layout: Layout
) -> frozenset[int] | None:
    """Give the buckets of the keys that filters, all of them true, let pass; None if of any."""
    wanted: dict[str, list[Any]] = {}
    for one in filters:
        name, values = _said(one, layout=layout)
        if name not in definition.key.names:
            continue
        kind = definition.key.field(name).type
        exact = [exact_value(kind, value) for value in values]
        if exact and None not in exact:
            wanted[name] = min(wanted.get(name, exact), exact, key=len)
    columns = [wanted.get(name, []) for name in definition.key.names]
    if not 0 < prod(map(len, columns)) <= _KEYS_MAX:
        return None
    rows = list(zip(*product(*columns), strict=True))
    fields = list(definition.key)
    arrays = [pa.array(list(row), field.type) for row, field in zip(rows, fields, strict=True)]
    keys = pa.StructArray.from_arrays(arrays, fields=fields)
    found = buckets_of_hashes(key_hashes(key_bytes(keys)), definition.buckets)
    return frozenset(found.tolist())


def _said(one: Any, *, layout: Layout) -> tuple[str, list[Any]]:  # noqa: ANN401
    """Give a column of the key and the values that it may have; no name if nothing is said."""
    if not isinstance(one, s.EqualTo | s.EqualNullSafe | s.In):
        return "", []
    front = (KEY,) if layout == "structs" else ()
    if one.attribute[:-1] != front:
        return "", []
    values = list(one.value) if isinstance(one, s.In) else [one.value]
    return one.attribute[-1], [value for value in values if value is not None]
