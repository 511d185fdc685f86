"""The log that is tailed: a line for each flight that left New York in 2013, or did not.

``TIME SEVERITY CARRIER NUMBER MESSAGE``, in the order of the hours; ``NUMBER`` counts the lines, so
that whoever has them can be asked which are lost and which came twice.
"""

from __future__ import annotations

import itertools
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from bench.demo.source import load

__all__ = ["LINE", "flight_log"]

LINE: Final = r"^(?P<time>\S+) (?P<severity>[A-Z]+) (?P<carrier>\S+) (?P<line>\d+) (?P<message>.*)$"
"""A line, as a regular expression that Go, Python and Spark understand alike."""
_LATE_MINUTES: Final = 60


def flight_log(lines: int) -> list[str]:
    """Make so many lines; the year has 336,776, and is told again behind its end."""
    flights = load()["flights"]
    flights = flights.take(pc.sort_indices(flights, [("time_hour", "ascending")]))
    years = -(-lines // len(flights))
    flights = pa.concat_tables([flights] * years).slice(0, lines)
    names = ("carrier", "flight", "tailnum", "origin", "dest", "dep_delay")
    times = pc.strftime(flights["time_hour"].cast(pa.timestamp("s", "UTC")), "%Y-%m-%dT%H:%M:%SZ")
    columns = [flights[name].to_pylist() for name in names]
    rows = zip(itertools.count(), times.to_pylist(), *columns, strict=False)
    return [
        f"{at} {severity(delay)} {carrier} {number} {carrier}{flight} {tail or 'without a tail'} "
        f"{origin}-{dest} {said(delay)}"
        for number, at, carrier, flight, tail, origin, dest, delay in rows
    ]


def severity(delay: float | None) -> str:
    """Say how bad it is: cancelled, an hour late, or neither."""
    if delay is None:
        return "ERROR"
    return "WARN" if delay >= _LATE_MINUTES else "INFO"


def said(delay: float | None) -> str:
    """Say it in words."""
    if delay is None:
        return "cancelled"
    return f"left {delay:.0f} minutes late" if delay > 0 else "left in time"
