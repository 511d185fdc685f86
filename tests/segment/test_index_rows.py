"""What an index says of the rows of chunks, where it says what no writer of ours does."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from quiver.errors import DamagedEntry
from quiver.segment.index import Index, encode_index


def index_of(rows: list[int | None]) -> Index:
    """An index of one stream; under a null stand the rows that would be right."""
    values = pa.array([5] * len(rows), pa.uint64())
    valid = pa.array([row is not None for row in rows]).buffers()[1]
    holed = pa.Array.from_buffers(pa.uint64(), len(rows), [valid, values.buffers()[1]])
    column = pa.ListArray.from_arrays(pa.array([0, len(rows)], pa.int32()), holed)
    return Index(encode_index([b""], column, bounds=[()], alike=np.zeros(1, np.int64)), [0])


STREAM = SimpleNamespace(stream_id=0, chunk_count=2, row_count=10)


def test_the_rows_of_each_chunk_are_given():
    assert index_of([5, 5]).chunk_rows(STREAM).tolist() == [5, 5]


@pytest.mark.parametrize("rows", [[5, None], [5], [5, 5, 5]], ids=str)
def test_what_is_not_said_and_what_does_not_add_up_is_damage(rows):
    with pytest.raises(DamagedEntry, match="other chunks"):
        index_of(rows).chunk_rows(STREAM)
