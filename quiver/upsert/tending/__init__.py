"""Keeps a collection small and quick to look into, and its store clean.

===========  =================================================================
``rules``    what is due: runs to fold or to merge, epochs to forget; pure
``acts``     one of these done: files read, one written; in any process
``garbage``  which files may be deleted; pure
``tend``     all of it, by the writer of the collection
===========  =================================================================

::

    tender = Tender(writer, Limits(history=100))
    writer.append(refs, epoch, ...)
    tender.tend()  # behind each append; does nothing most of the time
"""

from quiver.upsert.tending.acts import perform
from quiver.upsert.tending.rules import Act, Limits, chosen, due
from quiver.upsert.tending.tend import (
    GRACE,
    MARKER,
    SWEEP_INTERVAL,
    Hands,
    Swept,
    Tended,
    Tender,
    sweep,
    tend,
)

__all__ = [
    "GRACE",
    "MARKER",
    "SWEEP_INTERVAL",
    "Act",
    "Hands",
    "Limits",
    "Swept",
    "Tended",
    "Tender",
    "chosen",
    "due",
    "perform",
    "sweep",
    "tend",
]
