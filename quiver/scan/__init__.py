"""Read a store as Arrow data, while it is being written or when nobody has it open.

===============  ====================================================================
``view``         ``Scan``: the rows of one slot, for whoever speaks Arrow
``snapshot``     which segments there are, and what each holds of a slot
``query``        what is asked of a slot
``source``       what there is of it, in a store of ours or of the Rust Quiver
``plan``         which chunks of them must be read
``predicate``    what a filter says about rows of which only bounds are known
``times``        ranges of time as people give them
``read``         those chunks, few columns of them, in order
``rows``         a filter tried on rows
``open_log``     the same with the bundles that are in the log and in no segment yet
``open_bundle``  one of these
``coverage``     up to which number bundles are in segments
``dataset``      a scan as a ``pyarrow.dataset.Dataset``, for DuckDB, polars, DataFusion
``expressions``  which columns an expression uses
``ending``       nobody reads ahead into a process that ends
===============  ====================================================================

The package may be called: ``quiver.scan(path, slot=...)`` is ``quiver.scan.scan``. So the front
door's function and this folder share one name, whichever of them is imported first.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from os import PathLike
from types import ModuleType
from typing import Any

from quiver.casts.conform import conform
from quiver.scan.open_bundle import OpenBundle, OpenSlot
from quiver.scan.open_log import take_core_snapshot, take_snapshot
from quiver.scan.plan import Extent
from quiver.scan.query import Verify
from quiver.scan.snapshot import SegmentRef, SlotPart
from quiver.scan.times import TimeRange
from quiver.scan.view import Scan

__all__ = [
    "Extent",
    "OpenBundle",
    "OpenSlot",
    "Scan",
    "SegmentRef",
    "SlotPart",
    "conform",
    "scan",
    "take_core_snapshot",
    "take_snapshot",
]


def scan(
    path: str | PathLike[str],
    *,
    slot: str | int,
    columns: Sequence[str] | None = None,
    where: Any = None,  # noqa: ANN401
    event_time: TimeRange = (None, None),
    ingestion_time: TimeRange = (None, None),
    include_open: bool = False,
    verify: Verify = "lazy",
) -> Scan:
    """Look at one slot of the store in ``path``: at its finalized segments, as they are now.

    Opens no writer and takes no lock, so any number of processes may scan a store that is being
    written. ``columns`` leaves the other ones out and gives their order. ``where`` is a
    ``pyarrow.compute.Expression`` that rows must satisfy; ``event_time`` and ``ingestion_time`` are
    half-open ranges (``quiver.scan.times``), of the slot's event time column and of the append.
    What cannot hold such a row is not read; ``Scan.skipped`` says how much that was.

    ``include_open`` adds the bundles that are in the log and in no segment yet, those too that are
    not synced and may not survive a power cut. ``verify``: ``lazy`` checks what is read, before it
    is used and once for each scan; ``full`` checks each segment as a whole before anything of it is
    read; ``off`` checks nothing, and damage, or a hostile file, may end the process.

    ``path`` may also be a folder that the Rust Quiver wrote; slots have ids there and no names.
    """
    return Scan(
        path,
        slot=slot,
        columns=columns,
        where=where,
        event_time=event_time,
        ingestion_time=ingestion_time,
        include_open=include_open,
        verify=verify,
    )


class _CallablePackage(ModuleType):
    def __call__(self, path: str | PathLike[str], *, slot: str | int, **options: Any) -> Scan:  # noqa: ANN401
        return scan(path, slot=slot, **options)


sys.modules[__name__].__class__ = _CallablePackage
