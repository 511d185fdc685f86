"""Who has finished with which bundle, durably: ack.log and its checkpoint.

==============  =====================================================================
``format``      bytes of the log: header, frames, records
``checkpoint``  bytes of the checkpoint
``copies``      the checkpoint twice in its file
``replay``      a whole log from its bytes: sound records, and what else there was
``opening``     both files at a start: read, set damage aside, mend
``log``         the open log: append, sync, checkpoint
==============  =====================================================================

``FORMAT.md`` gives the bytes in prose and tables.
"""

from quiver.acks.checkpoint import Checkpoint, NackState, SegmentState, SubscriberState
from quiver.acks.format import (
    DROPPED_AGE,
    DROPPED_DAMAGED,
    DROPPED_OPERATOR,
    DROPPED_SIZE,
    Ack,
    Dropped,
    Floor,
    Nack,
    Record,
    Register,
    Unregister,
)
from quiver.acks.log import AckLog
from quiver.acks.opening import Replay

__all__ = [
    "DROPPED_AGE",
    "DROPPED_DAMAGED",
    "DROPPED_OPERATOR",
    "DROPPED_SIZE",
    "Ack",
    "AckLog",
    "Checkpoint",
    "Dropped",
    "Floor",
    "Nack",
    "NackState",
    "Record",
    "Register",
    "Replay",
    "SegmentState",
    "SubscriberState",
    "Unregister",
]
