"""Streams that are kept as they came: each payload becomes an Arrow file of its own, uncopied.

To unite dictionaries takes several times as long as to write the bytes. Where bundles come faster
than that, a segment is made of such streams. What they lack is what would have to be looked for:
bounds of columns and chunks, and the number of nulls. Small ones have no checksums of pages either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from quiver.ipc import decode_own_streams
from quiver.ipc_around import FILE_HEAD, FileAround
from quiver.segment.body import KeptBodies
from quiver.segment.bounds import ColumnBounds
from quiver.segment.events import EventRanges, event_place, event_ranges
from quiver.segment.rest import Rest, no_rest
from quiver.segment.stream import FinishedStreams

__all__ = ["KEPT_BYTES_MIN", "PAGED_BYTES_MIN", "keep"]

KEPT_BYTES_MIN: Final = 4096
"""Smaller payloads are united: what is put around each would be half of it."""
PAGED_BYTES_MIN: Final = 1 << 18
"""Of a smaller one a reader checks all, whatever it wants of it."""


def keep(
    schema: pa.Schema,
    bundles: Sequence[int],
    payloads: Sequence[memoryview],
    *,
    rows: Sequence[int],
    event_column: str,
    rest: Rest = no_rest,
) -> FinishedStreams | None:
    """Make a stream of each payload, all of one schema; None if one is not plainly one batch.

    ``bundles`` has the index of the bundle of each, and ``rows`` how many it has.
    """
    around = FileAround.of(payloads[0])
    if around is None:
        return None
    tails = []
    for payload in payloads:
        tail = around.tail(payload)
        if tail is None:
            around = FileAround.of(payload)
            tail = None if around is None else around.tail(payload)
            if around is None or tail is None:
                return None
        tails.append(tail)
        rest()
    return FinishedStreams(
        schema,
        bundles,
        rows,
        _events(schema, payloads, event_column),
        (None,) * len(schema),
        (ColumnBounds(),) * len(schema),
        KeptBodies(FILE_HEAD, payloads, tails, PAGED_BYTES_MIN),
    )


def _events(schema: pa.Schema, payloads: Sequence[memoryview], event_column: str) -> EventRanges:
    place = event_place(schema, event_column)
    if place is None:
        return EventRanges.unknown(len(payloads))
    return event_ranges([batch.column(place) for batch in decode_own_streams(payloads)])
