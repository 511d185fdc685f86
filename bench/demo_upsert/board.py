"""The commands: what changes on a board that has a row for each aircraft and day of 2013.

An aircraft-day is *planned* three hours before its first flight should leave. It is *departed* and
*landed* with each flight of that day; a flight is said to land its time in the air after it
departed. A flight that is cancelled takes its aircraft off the board, until it departs after all.
Flights that were cancelled before they had an aircraft name none: there is nothing to take off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa

from bench.demo_upsert.slots import CANCELLED, COLUMNS, KEY, ORDER

__all__ = ["Board", "board"]

_PLANNED, _DEPARTED, _LANDED, _CANCELLED = range(4)
_STATES: Final = np.array(["planned", "departed", "landed", "cancelled"], dtype=object)
_AHEAD: Final = pd.Timedelta(hours=3)


@dataclass(frozen=True)
class Board:
    """All commands by their numbers, and behind which of them a bundle ends."""

    commands: Any
    """Of pandas; the index of each is its number."""
    ends: Any
    """Bundle ``k`` is commands ``[ends[k - 1], ends[k])``; the last of it is no deletion."""

    def save(self, path: str) -> None:
        """Write the bundles to a file: within each go by aircraft, not as the commands hold."""
        sizes = np.diff(self.ends, prepend=0)
        which = np.repeat(np.arange(len(sizes)), sizes)
        order = np.lexsort((self.commands["tailnum"].fillna(""), which))
        table = pa.Table.from_pandas(self.commands.iloc[order], COLUMNS, preserve_index=False)
        with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, COLUMNS) as writer:
            first = 0
            for end in self.ends:
                writer.write_table(table.slice(first, end - first).combine_chunks())
                first = end


def board(tables: Mapping[str, pa.Table]) -> Board:
    """Derive the commands from the table of flights."""
    flights = _flights(tables["flights"])
    known = flights[flights["tailnum"].notna()]
    first = known.sort_values("due", kind="stable").drop_duplicates(KEY)
    gone = flights["dep_time"].isna()
    left, landed = flights[~gone], flights[flights["air_time"].notna()]
    parts = [
        _act(first, _PLANNED, first["due"] - _AHEAD),
        _act(left, _DEPARTED, left["left"], late=left["dep_delay"]),
        _act(
            landed, _LANDED, landed["left"] + _minutes(landed["air_time"]), late=landed["arr_delay"]
        ),
        _act(flights[gone], _CANCELLED, flights.loc[gone, "due"]),
    ]
    commands = pd.concat(parts).sort_values(["at", "state", "row"], kind="stable")
    return _numbered(commands.reset_index(drop=True))


def _flights(table: pa.Table) -> Any:
    found = table.to_pandas()
    found["row"] = np.arange(len(found))
    found["day"] = pd.to_datetime(found[["year", "month", "day"]]).dt.date
    found["due"] = found["time_hour"] + _minutes(found["minute"])
    found["left"] = found["due"] + _minutes(found["dep_delay"])
    found["flight"] = found["carrier"] + " " + found["flight"].astype(str)
    return found


def _minutes(column: Any) -> Any:
    """Give whole minutes; of nothing, nothing, which pandas would put through its arithmetic."""
    whole = column.fillna(0).astype("int64")
    return pd.to_timedelta(whole, unit="min").where(column.notna())


def _act(flights: Any, state: int, at: Any, *, late: Any = None) -> Any:
    found = flights[["row", *KEY, "flight", "origin", "dest", "distance"]].copy()
    found["state"], found["at"] = state, at
    found["late"] = pd.NA if late is None else late
    found["late"] = found["late"].astype("Int64")
    return found


def _numbered(commands: Any) -> Board:
    """Number the commands, count what each aircraft has done that day, and cut into hours."""
    commands[ORDER] = np.arange(len(commands))
    commands["status"] = _STATES[commands["state"]]
    commands[CANCELLED] = commands["state"] == _CANCELLED
    flown = commands["distance"].where(commands["state"] == _LANDED, 0)
    for name, done in (("legs", commands["state"] == _DEPARTED), ("miles", flown)):
        sums = done.groupby([commands[key] for key in KEY], dropna=False).cumsum()
        commands[name] = sums.astype("int64")
    hours = commands["at"].dt.floor("h").to_numpy()
    is_end = np.append(hours[1:] != hours[:-1], True)
    # A bundle ends with a row that stays, so that what is on the board tells how far it has come.
    stays = np.flatnonzero(~commands[CANCELLED].to_numpy())
    ends = stays[np.minimum(np.searchsorted(stays, np.flatnonzero(is_end)), len(stays) - 1)] + 1
    ends = np.unique(ends)
    ends[-1] = len(commands)
    return Board(commands[COLUMNS.names], ends)
