"""What orders commands that come from Quiver: when and where their bundle was appended.

A core writes its bundles one after the other, so their places order them, and the rows in them.
Between cores only time can tell, as far as the clock of the machine can be trusted: so time comes
first, and where it goes back within a core it is held at what it was. That is sure within a task.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quiver.spark.upsert.splits import SplitPlan, numbers

__all__ = ["ORDER", "PLACE", "QUIVER", "with_order"]

QUIVER: Final = SplitPlan(
    ("_store_id", "_core"), ("_segment_seq", "_bundle_index"), form="{}/core_{}"
)
"""The splits of a store, and of a queue that many stores are shipped to: their cores."""
PLACE: Final = (*QUIVER.columns, "_row_index", "_ingestion_time")
"""All columns that say where a row is from."""
ORDER: Final = (":time", ":bundle", ":row")
"""The columns that order commands."""

_BUNDLES: Final = 1 << 32


def with_order(rows: pa.Table) -> pa.Table:
    """Give the rows with the columns of ``ORDER``; needs those of ``PLACE``."""
    bundles = numbers(rows, "_segment_seq") * _BUNDLES + numbers(rows, "_bundle_index")
    found = numbers(rows, "_row_index")
    times = _held(rows, bundles)
    for name, column in zip(ORDER, (times, bundles, found), strict=True):
        rows = rows.append_column(name, pa.array(column))
    return rows


def _held(rows: pa.Table, bundles: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Give times that never go back within a core, bundle by bundle."""
    column: Any = rows.column("_ingestion_time")
    times = column.cast(pa.int64()).fill_null(0).to_numpy()
    stores: Any = rows.column("_store_id").combine_chunks()
    stores = stores.dictionary_encode(null_encoding="encode").indices.to_numpy()
    cores = stores.astype(np.int64) * _BUNDLES + numbers(rows, "_core")
    anew = (np.diff(bundles) != 0) | (np.diff(cores) != 0)
    firsts = np.flatnonzero(np.append(np.ones(min(1, len(times)), np.bool_), anew))
    # One row of each run of rows of one bundle stands for it; a run may come again.
    of_runs = bundles[firsts], cores[firsts], times[firsts]
    order = np.lexsort((of_runs[0], of_runs[1]))
    held = np.empty(len(order), np.int64)
    for core in np.unique(of_runs[1]).tolist():
        own = order[of_runs[1][order] == core]
        held[own] = np.maximum.accumulate(of_runs[2][own])
    return np.repeat(held, np.diff(np.append(firsts, len(times))))
