"""The write-ahead log: a bundle is in it before its append is acknowledged.

=============  ========================================================================
``format``     bytes of header, entry and sidecar, without any file (``FORMAT.md``)
``reuse``      what differs where a file was used before: checksums, and a mark where it ends
``writer``     the active file: append, one sync for many
``log``        active and rotated files: caps, rotation, truncation
``begin``      how a file comes to be
``spares``     files that segments hold as a whole, kept to be written over
``content``    the bytes of a file, each where it is asked for
``reader``     walk a file; find the way again behind damage
``sweep``      good entries, many at a time
``names``      what they are called
``files``      which files there are; opened at one moment, without a lock
``start``      the furthest place where a replay may start
``replay``     everything that no segment holds yet, after a stop of any kind
``striking``   bundles behind a lost one, taken out again
``resume``     the active file opened for appends again
``truncate``   the sidecar: where a replay may start
=============  ========================================================================
"""

from quiver.wal.files import own_generation
from quiver.wal.format import Place, entry_bytes, entry_parts
from quiver.wal.log import Apart, Log
from quiver.wal.names import ACTIVE_NAME, rotated_generation
from quiver.wal.replay import Replay
from quiver.wal.spares import is_spare
from quiver.wal.truncate import SIDECAR_NAME

__all__ = [
    "ACTIVE_NAME",
    "SIDECAR_NAME",
    "Apart",
    "Log",
    "Place",
    "Replay",
    "entry_bytes",
    "entry_parts",
    "is_spare",
    "own_generation",
    "rotated_generation",
]
