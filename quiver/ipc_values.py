"""The values of a table out of an Arrow file, validated in full: what many chunks share, once.

Arrow validates a column chunk by chunk, and with each chunk of a dictionary all of its words anew.
All chunks of a file have the same words, and their indices are numbers. And it looks at texts one
by one, which takes three times as long as to see that a whole buffer is ASCII.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from quiver.schemas import equal_is_same

__all__ = ["validate_later", "validate_table"]

_JOINED_BITS_MAX: Final = 1 << 29
"""Indices of a column that are copied to look at them together; if there are more, they are not."""

_LONG: Final = 1024
"""Rows of a chunk, about, from which on all of its texts are looked at together first."""

_FEW: Final = 400
"""Rows and words of a chunk, about, that Arrow has validated before a chunk is taken apart."""
_WORD_BY_ROW: Final = 4


def validate_table(table: pa.Table) -> None:
    """Do what ``table.validate(full=True)`` does, for a table that was read from an Arrow file."""
    columns: list[Any] = table.columns
    if columns and columns[0].num_chunks == 1 and table.num_rows < _LONG:
        table.validate(full=True)  # Nothing is shared, and little is looked at.
        return
    if any(len(column) != table.num_rows for column in columns):
        table.validate(full=True)
    for column in columns:
        if not _is_known(column):
            column.validate(full=True)


def validate_later(batch: pa.RecordBatch) -> None:
    """Do what ``batch.validate(full=True)`` does, for one of a file of which another one passed."""
    batch.validate()
    for column in batch.columns:
        if not (kinds.is_dictionary(column.type) and _fits(column)):
            column.validate(full=True)


def _fits(column: Any) -> bool:  # noqa: ANN401
    """Whether indices are those of words that are known to be valid; False if Arrow has to look."""
    words, indices = column.dictionary, column.indices
    if len(column) + _WORD_BY_ROW * len(words) < _FEW:
        return False
    indices.validate(full=True)
    return _are_within(indices, len(words))


def _are_within(indices: Any, count: int) -> bool:  # noqa: ANN401
    bounds: Any = pc.min_max(indices).as_py()
    return bounds["min"] is None or 0 <= bounds["min"] <= bounds["max"] < count


def _is_known(column: Any) -> bool:  # noqa: ANN401
    """Whether a column is found to be valid without Arrow, which may raise ArrowInvalid as well."""
    if kinds.is_dictionary(column.type):
        return _is_sound(column)
    return kinds.is_string(column.type) and _is_ascii(column)


def _is_ascii(column: Any) -> bool:  # noqa: ANN401
    """Whether texts without nulls are ASCII, and so valid UTF-8 wherever one ends."""
    if len(column) < _LONG * column.num_chunks:
        return False  # In short chunks to ask costs more than to look.
    column.validate()  # That the buffers are as large as the ends of the texts say.
    return all(map(_is_ascii_chunk, column.chunks))


def _is_ascii_chunk(chunk: Any) -> bool:  # noqa: ANN401
    validity, offsets, data = chunk.buffers()
    if validity is not None or not len(chunk):
        return False
    ends = np.frombuffer(offsets, np.int32, len(chunk) + 1, 4 * chunk.offset)
    first, last = int(ends[0]), int(ends[-1])
    if first < 0 or (ends[1:] < ends[:-1]).any():
        return False
    return first == last or int(np.frombuffer(data, np.int8, last - first, first).min()) >= 0


def _is_sound(column: Any) -> bool:  # noqa: ANN401
    """Whether a column of dictionaries is valid; False if Arrow has to look, and say what is wrong.

    Raises ArrowInvalid for what is wrong with the words, or with the lengths of anything.
    """
    chunks = column.num_chunks
    if not chunks:
        return False
    column.validate()
    words = column.chunk(0).dictionary
    if len(column) + _WORD_BY_ROW * len(words) * chunks < _FEW * chunks:
        return False
    if not _are_ascii(words):
        words.validate(full=True)
    return _are_within(_indices(column), len(words))


def _are_ascii(words: Any) -> bool:  # noqa: ANN401
    """Whether these are many texts without nulls, all ASCII."""
    if not kinds.is_string(words.type) or len(words) < _LONG:
        return False
    words.validate()
    return _is_ascii_chunk(words)


def _indices(column: Any) -> Any:  # noqa: ANN401
    """Give the indices of a column whose words are valid; valid numbers, of whatever size."""
    kind = column.type
    if (
        not column.null_count
        and equal_is_same(kind.value_type)
        and len(column) * kind.index_type.bit_width <= _JOINED_BITS_MAX
    ):
        joined = column.combine_chunks().indices
        if joined.buffers()[0] is None:
            return joined
    indices = pa.chunked_array([chunk.indices for chunk in column.chunks], kind.index_type)
    indices.validate(full=True)  # That there are as many nulls in each chunk as it says.
    return indices
