"""Values of Arrow arrays as numpy has them, read from their buffers.

``Array.to_numpy`` loads pandas where it is there: a third of a second and 40 MB in each process
that reads segments, whether anybody wants a DataFrame or not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["integers", "truths"]


def integers(column: Any) -> npt.NDArray[np.int64]:  # noqa: ANN401
    """Copy an array of integers without nulls, widened: sums and comparisons cannot wrap."""
    if not len(column):
        return np.empty(0, np.int64)
    kind = np.dtype(column.type.to_pandas_dtype())
    begin = column.offset * kind.itemsize
    return np.frombuffer(column.buffers()[1], kind, len(column), begin).astype(np.int64)


def truths(column: Any) -> npt.NDArray[np.bool_]:  # noqa: ANN401
    """Copy an array of booleans without nulls."""
    if not len(column):
        return np.empty(0, np.bool_)
    skipped, begin = divmod(column.offset, 8)
    count = (begin + len(column) + 7) // 8
    bits = np.frombuffer(column.buffers()[1], np.uint8, count, skipped)
    return np.unpackbits(bits, bitorder="little")[begin : begin + len(column)].view(np.bool_)
