"""The manifest of a queue, and each change of it: append, fence, dequeue.

``FORMAT.md`` has the tables.

============  =============================================================================
``format``    the bytes of entries and footer, as the reference has them; pure
``tail``      what entries of ours say beyond it: size and checksum of the batch, marks
``table``     the bytes of pages, and of the table that names them
``manifest``  a manifest as a value, and what each change makes of it; pure
``marks``     which entries the queue has had already
``changing``  read, change, put if nobody else did, and again if somebody did
``pace``      how long to wait before the next try
``turns``     who loses all the time asks for a turn
``pages``     pages as they are read
``reading``   one state of the queue, with its pages
``placing``   damage is named with its object
``queue``     all of it together: the class ``Queue``
============  =============================================================================
"""

from quiver.ship.queue.changing import MANIFEST_KEY, Counters
from quiver.ship.queue.format import Item
from quiver.ship.queue.manifest import Entry, NewEntry, Span
from quiver.ship.queue.queue import Queue, QueueOptions, Started
from quiver.ship.queue.reading import QueueView
from quiver.ship.queue.table import PAGE, PageRef
from quiver.ship.queue.tail import Batch, Mark, Marks

__all__ = [
    "MANIFEST_KEY",
    "PAGE",
    "Batch",
    "Counters",
    "Entry",
    "Item",
    "Mark",
    "Marks",
    "NewEntry",
    "PageRef",
    "Queue",
    "QueueOptions",
    "QueueView",
    "Span",
    "Started",
]
