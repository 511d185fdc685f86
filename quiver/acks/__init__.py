"""Who has finished with which bundle, durably: ack.log and its checkpoint.

==============  =====================================================================
``records``     what the log can say
``format``      bytes of the log: header, frames, records
``states``      what a checkpoint and an inbox say alike
``checkpoint``  bytes of the checkpoint
``copies``      the checkpoint twice in its file
``sums``        checksums of many frames at once
``merging``     many acks as few
``replay``      a whole log from its bytes: sound records, and what else there was
``opening``     both files at a start: read, set damage aside, mend
``log``         the open log: append, sync, checkpoint
``inbox``       bytes of what a subscriber in another process did
``letterbox``   the files of such: list, read, write, lock
==============  =====================================================================

``FORMAT.md`` gives the bytes in prose and tables.
"""

from quiver.acks.checkpoint import Checkpoint, SubscriberState
from quiver.acks.inbox import DeadLetterState, Inbox
from quiver.acks.letterbox import (
    INBOX_FOLDER,
    holding,
    list_inbox,
    read_inbox,
    remove_inbox,
    write_inbox,
)
from quiver.acks.log import AckLog
from quiver.acks.opening import Replay
from quiver.acks.records import (
    DEAD_ATTEMPTS,
    DEAD_REJECTED,
    DROPPED_AGE,
    DROPPED_DAMAGED,
    DROPPED_OPERATOR,
    DROPPED_SIZE,
    Ack,
    DeadLetter,
    Dropped,
    Floor,
    Lease,
    Nack,
    Pause,
    Record,
    Register,
    Rename,
    Unregister,
)
from quiver.acks.states import NackState, SegmentState

__all__ = [
    "DEAD_ATTEMPTS",
    "DEAD_REJECTED",
    "DROPPED_AGE",
    "DROPPED_DAMAGED",
    "DROPPED_OPERATOR",
    "DROPPED_SIZE",
    "INBOX_FOLDER",
    "Ack",
    "AckLog",
    "Checkpoint",
    "DeadLetter",
    "DeadLetterState",
    "Dropped",
    "Floor",
    "Inbox",
    "Lease",
    "Nack",
    "NackState",
    "Pause",
    "Record",
    "Register",
    "Rename",
    "Replay",
    "SegmentState",
    "SubscriberState",
    "Unregister",
    "holding",
    "list_inbox",
    "read_inbox",
    "remove_inbox",
    "write_inbox",
]
