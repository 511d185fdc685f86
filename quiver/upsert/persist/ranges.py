"""Files of a bucket parted by hash, so that what is done to all of them takes the memory of a part.

Rows lie by hash in every file, and a key's rows have one hash: whatever is told of keys can be told
of one range of hashes after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from quiver.upsert.persist.checking import Part

__all__ = ["RANGE_ROWS", "ranges"]

RANGE_ROWS: Final = 1 << 17
"""About so many rows are in a range."""
_SAMPLED: Final = 1 << 10
"""Of so many rows one is looked at to tell where ranges begin."""


def ranges(parts: Sequence[Part], *, rows_max: int = RANGE_ROWS) -> Iterator[list[Part]]:
    """Give what each of the parts has in a range of hashes, ascending; it may have nothing there.

    A range has few more rows than ``rows_max``, unless one hash has; only of nothing it has none.
    """
    if sum(len(part.hashes) for part in parts) <= rows_max:
        yield list(parts)
        return
    step = max(min(_SAMPLED, rows_max // max(len(parts), 1)), 1)
    samples = np.sort(np.concatenate([part.hashes[::step] for part in parts]))
    every = max(rows_max // step, 1)
    starts = [0] * len(parts)
    cuts = np.unique(samples[every::every])
    for cut in cuts[cuts > samples[0]]:  # The least hash of all is the first sample.
        ends = [int(np.searchsorted(part.hashes, cut)) for part in parts]
        yield list(map(_cut, parts, starts, ends))
        starts = ends
    yield list(map(_cut, parts, starts, [len(part.hashes) for part in parts]))


def _cut(part: Part, start: int, end: int) -> Part:
    """View some of the rows of a part."""
    times = None if part.times is None else part.times[start:end]
    diffs = None if part.diffs is None else part.diffs[start:end]
    rows = part.rows.slice(start, end - start)
    return Part(rows, part.hashes[start:end], times, diffs, part.mapped)
