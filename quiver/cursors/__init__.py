"""Read a store by time: the bundles of any of its partitions, merged.

==============  ============================================================================
``merged``      ``Cursor``: next, poll, reset, position
``partition``   one core, in order: blocks, then the log
``blocks``      segments by time, found by bisection
``inside``      the bundles of one block, or of the log, that are in range
``live``        when it is a message's turn
``message``     what comes out
==============  ============================================================================

``CURSORS.md`` beside this file says what it promises, and in which words of TimeBase.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from quiver.clock import Clock, SystemClock
from quiver.cursors.blocks import Block, timely
from quiver.cursors.merged import Cursor, Options
from quiver.cursors.message import Message, Position
from quiver.disk import Disk, LocalDisk
from quiver.timeline import Time

if TYPE_CHECKING:
    from quiver.engine import Store

__all__ = ["Block", "Cursor", "Message", "Position", "cursor", "timely"]


def cursor(
    store: str | os.PathLike[str] | Store,
    *,
    partitions: Collection[int] | int | None = None,
    start: Time | None = None,
    end: Time | None = None,
    slots: Collection[str] | str | None = None,
    live: bool = False,
    reverse: bool = False,
    allow_late: bool = False,
    position: Mapping[int, tuple[int, int]] | None = None,
    clock: Clock | None = None,
    disk: Disk | None = None,
) -> Cursor:
    """Go through the bundles of a store in order of time, from segments and then from the log.

    ``store`` is its folder, or the open store. ``partitions`` are numbers of cores, all if not
    given. **Both ends of the range are included**, unlike those of ``quiver.scan``: ``start`` and
    ``end`` are times as for ``append``. Messages come by time, then partition, then number.
    ``slots``: only bundles that have one of them, and of these only those slots.

    ``live``: behind the end it waits for more. A message comes when no other partition can have an
    earlier one: an idle one tells by heartbeats (``Store.heartbeat``), one that nobody writes holds
    nobody up, and with ``allow_late`` nobody is waited for. All partitions must be written with
    ``segment.time`` ``writer`` or ``caller``. Those that follow the clock are put in order where
    their times overlap, in a cursor that is not live. ``position``, that of another cursor, is
    where to go on. ``reverse`` goes back from the end.

    Seen is what is whole in the log, synced or not: a power cut may take it. Raises MissingError if
    there is no store, InputError for what makes no sense.
    """
    options = Options(
        partitions=partitions,
        start=start,
        end=end,
        slots=slots,
        live=live,
        reverse=reverse,
        allow_late=allow_late,
        position=position,
    )
    known = clock or SystemClock()
    if disk is not None:
        return Cursor(disk, known, options)
    path = store if isinstance(store, str | os.PathLike) else store.path
    own = LocalDisk(path)
    try:
        return Cursor(own, known, options, owned=own)
    except BaseException:
        own.close()
        raise
