"""The lines that are in the tables of the Parquet exporter."""

from __future__ import annotations

import os
from typing import Any, Final

import numpy as np
import pyarrow.compute as pc
import pyarrow.dataset as ds

from bench.demo_otel.sink import LINE_NUMBER

__all__ = ["line_numbers"]

_TABLE: Final = "log_attrs"


def line_numbers(folder: str) -> Any:
    """Read the numbers of lines; each as often as it is there."""
    table = os.path.join(folder, _TABLE)
    if not os.path.isdir(table):
        return np.zeros(0, np.int64)
    files = ds.dataset(table, partitioning="hive")
    if not files.files:  # The folder of a day is there before its first file.
        return np.zeros(0, np.int64)
    found = files.to_table(columns=["str"], filter=ds.field("key").cast("string") == LINE_NUMBER)
    return pc.cast(found["str"].cast("string"), "int64").to_numpy()
