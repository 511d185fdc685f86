"""What a streaming query of Spark has committed, read and acked without Spark.

==============  ===================================================================
``offsets``     how far a query is in a store, as its checkpoint has it
``folder``      the checkpoint's folder
``sink``        the files that a file sink wrote, by its log
``note``        who a query is, left in its checkpoint
``reconciler``  from commits to acks, everything on the disk before
``acking``      ``Acker``: the same for the subscriber of a store
==============  ===================================================================
"""

from __future__ import annotations

from quiver.checkpoint.acking import Acker
from quiver.checkpoint.folder import CheckpointFolder
from quiver.checkpoint.note import Note, hold, read_notes, write_note
from quiver.checkpoint.offsets import decode_offset, encode_offset, first_of
from quiver.checkpoint.reconciler import SYNCED, Reconciler
from quiver.checkpoint.sink import FileSink

__all__ = [
    "SYNCED",
    "Acker",
    "CheckpointFolder",
    "FileSink",
    "Note",
    "Reconciler",
    "decode_offset",
    "encode_offset",
    "first_of",
    "hold",
    "read_notes",
    "write_note",
]
