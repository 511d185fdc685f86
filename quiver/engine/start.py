"""Where a new subscriber starts.

===============  ===============================================================
start            gets
===============  ===============================================================
``"earliest"``   everything that is still there
``"latest"``     what is appended from now on
a number         what is in the segment of that number and in later ones
a time           the bundles that were appended at that time or later: a
                 ``datetime`` (UTC if it has no zone) or a text in ISO 8601
===============  ===============================================================
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np

from quiver.disk import Disk
from quiver.errors import InputError
from quiver.segment import Catalog, SegmentReader

__all__ = ["Position", "Start", "find_start", "parse_start"]

Start: TypeAlias = str | int | datetime
"""As in the table above."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SEQ_MAX: Final = (1 << 63) - 1


class Position(NamedTuple):
    """The first bundle that is a subscriber's."""

    segment_seq: int = 0
    bundle_index: int = 0


def parse_start(start: Start) -> Literal["earliest", "latest"] | int | datetime:
    """Check a start and read it if it is a text; InputError says what it may be."""
    if isinstance(start, str):
        if start in ("earliest", "latest"):
            return "earliest" if start == "earliest" else "latest"
        if start.isdecimal():
            return parse_start(int(start))
        try:
            return parse_start(datetime.fromisoformat(start))
        except ValueError:
            raise _refused(start) from None
    if isinstance(start, datetime):
        return start if start.tzinfo else start.replace(tzinfo=UTC)
    if isinstance(start, bool) or not isinstance(start, int) or not 0 <= start <= _SEQ_MAX:
        raise _refused(start)
    return start


def find_start(
    start: Literal["earliest", "latest"] | int | datetime,
    catalog: Catalog,
    disk: Disk,
    *,
    next_segment_seq: int,
) -> Position:
    """Find the position among the segments that are there; ``latest`` is behind all of them."""
    if isinstance(start, datetime):
        since_ns = (start - _EPOCH) // timedelta(microseconds=1) * 1000
        return _first_since(since_ns, catalog, disk) or Position(next_segment_seq)
    if isinstance(start, int):
        return Position(start)
    return Position() if start == "earliest" else Position(next_segment_seq)


def _first_since(since_ns: int, catalog: Catalog, disk: Disk) -> Position | None:
    """Find the first bundle that was appended at a time or later; None if there is none.

    A clock may have been set back in between: whatever is behind that bundle comes too.
    """
    for info in sorted(catalog, key=lambda info: info.segment_seq):
        latest = info.ingestion_ns_max
        if latest is not None and latest < since_ns:
            continue
        with SegmentReader.open(disk, info.path) as reader:
            times = reader.manifest.ingestion_ns()
        after = None if times is None else np.flatnonzero(times >= since_ns)
        if after is None or len(after):
            return Position(info.segment_seq, 0 if after is None else int(after[0]))
    return None


def _refused(start: object) -> InputError:
    return InputError(
        f"start: {start!r} is no position",
        hint="'earliest', 'latest', the number of a segment, or a time such as 2026-01-31T12:00Z",
    )
