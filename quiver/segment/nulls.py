"""How many nulls the columns of a stream have, as far as validity bitmaps tell.

Not by ``pyarrow.compute.count``: it ends the process on a dictionary whose values are of the null
type, and misses nulls in the storage of extension types.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from quiver.schemas import Kind
from quiver.segment.tables import Column

__all__ = ["RunningNulls", "count_nulls"]


class RunningNulls:
    """The nulls of a column whose chunks come some at a time."""

    def __init__(self, kind: Kind) -> None:
        self._count: int | None = None if _is_mute(_storage_type(kind)) else 0

    def add(self, chunks: Sequence[Column]) -> None:
        """Count those of chunks; of a dictionary's, those of its indices do."""
        if self._count is not None:
            self._count += sum(chunk.null_count for chunk in chunks)

    def found(self) -> int | None:
        """Say how many there were; None where only the values could tell."""
        return self._count


def count_nulls(table: pa.Table) -> tuple[int | None, ...]:
    """Count the nulls of each column of a stream; None where only the values could tell.

    That is so for unions, run-end encoded columns, and dictionaries that hold a null or such types.
    """
    return tuple(_count_nulls(column) for column in table.columns)


def _count_nulls(column: Column) -> int | None:
    array: Column = column.chunk(0) if column.num_chunks else None
    kind: Column = column.type
    while isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
        array = None if array is None else array.storage
    while array is not None and pa.types.is_dictionary(array.type):
        array = array.dictionary  # All chunks of a file have the same one.
        kind = array.type
        while isinstance(kind, pa.BaseExtensionType):
            array, kind = array.storage, kind.storage_type
        if array.null_count:
            return None
    return None if _is_mute(kind) else int(column.null_count)


def _storage_type(kind: Kind) -> Kind:
    while isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    return kind


def _is_mute(kind: Kind) -> bool:
    return pa.types.is_union(kind) or pa.types.is_run_end_encoded(kind)
