"""How far the sources that a store follows were read: the states of their splits.

A state travels in the entry of the bundle that was read up to it, goes with that bundle into its
segment, and is in the file ``progress`` of the core before that segment may be deleted.

==========  ======================================================================
``format``  the bytes of a note, of a table, and of the file
``table``   pure: the newest state of each split, and what is newer
``file``    reading and replacing the file, and what to do about damage
``loss``    that states were lost, and who begins anew
==========  ======================================================================
"""

from quiver.progress.file import (
    HERE_NAME,
    PROGRESS_NAME,
    is_marked,
    read_progress,
    write_progress,
)
from quiver.progress.format import EPOCH_MAX, LAG_MAX, Note, decode_note, encode_note, with_lag
from quiver.progress.loss import (
    LOST_NAME,
    Loss,
    read_accepted,
    read_loss,
    write_accepted,
    write_loss,
)
from quiver.progress.table import Row, Table

__all__ = [
    "EPOCH_MAX",
    "HERE_NAME",
    "LAG_MAX",
    "LOST_NAME",
    "PROGRESS_NAME",
    "Loss",
    "Note",
    "Row",
    "Table",
    "decode_note",
    "encode_note",
    "is_marked",
    "read_accepted",
    "read_loss",
    "read_progress",
    "with_lag",
    "write_accepted",
    "write_loss",
    "write_progress",
]
