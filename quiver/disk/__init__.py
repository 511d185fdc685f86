"""The only door to the operating system.

=============  ====================================================================
``vfs``        the protocols ``Disk`` and ``File``: what each act promises
``local``      the real one
``replace``    a file, old or new but never half: temporary, sync, rename, sync
``ahead``      what will be read, or was written, so that nobody waits for all of it later
``mapping``    a file in memory, without a descriptor that is kept for it
``aside``      a file by one of many writers at once, under a name of its own until it is whole
``window``     a file walked from start to end, seen a piece at a time
``copying``    from file to file, inside the system where it can
``quarantine`` damaged bytes set aside, with the reason
``measure``    how much room a folder takes
``watch``      wait until something in a folder changes
``lock``       one writer for a folder
``holder``     who holds a lock, without taking it
``patience``   a lock that is waited for, but not for ever
``held``       locks taken once for work on many folders
``inside``     one folder of a disk as a disk of its own
``overlay``    another disk with changes that nobody else sees
``everything`` all that was written, by anybody
``foreign``    a file of the user's own, which is in no store
``own``        names that nobody else has, and which process this is
``calls``      what the system can do and the standard library does not know
=============  ====================================================================
"""

from quiver.disk.ahead import (
    fetch,
    fetch_ranges,
    is_mapped,
    let_go,
    read_along,
    read_apart,
    write_soon,
)
from quiver.disk.aside import is_aside, remove_forgotten, write_aside
from quiver.disk.calls import keep_memory
from quiver.disk.copying import copy_bytes, write_parts
from quiver.disk.everything import sync_everything
from quiver.disk.foreign import foreign_path, read_foreign
from quiver.disk.held import HeldDisk
from quiver.disk.holder import lock_holders
from quiver.disk.inside import FolderDisk
from quiver.disk.local import LocalDisk, folder_path
from quiver.disk.local_file import lacks_descriptors
from quiver.disk.measure import folder_bytes
from quiver.disk.overlay import OverlayDisk
from quiver.disk.own import fresh_name, process_id
from quiver.disk.patience import lock_within
from quiver.disk.quarantine import copy_file, copy_range, save_bytes
from quiver.disk.replace import TEMPORARY, NewFile, is_temporary, remove, replace, write_new
from quiver.disk.vfs import FILE_MODE, SEALED_MODE, Bytes, Disk, File, Lock, Stat
from quiver.disk.watch import Watch
from quiver.disk.window import PassingWindow, Window, read_into

__all__ = [
    "FILE_MODE",
    "SEALED_MODE",
    "TEMPORARY",
    "Bytes",
    "Disk",
    "File",
    "FolderDisk",
    "HeldDisk",
    "LocalDisk",
    "Lock",
    "NewFile",
    "OverlayDisk",
    "PassingWindow",
    "Stat",
    "Watch",
    "Window",
    "copy_bytes",
    "copy_file",
    "copy_range",
    "fetch",
    "fetch_ranges",
    "folder_bytes",
    "folder_path",
    "foreign_path",
    "fresh_name",
    "is_aside",
    "is_mapped",
    "is_temporary",
    "keep_memory",
    "lacks_descriptors",
    "let_go",
    "lock_holders",
    "lock_within",
    "process_id",
    "read_along",
    "read_apart",
    "read_foreign",
    "read_into",
    "remove",
    "remove_forgotten",
    "replace",
    "save_bytes",
    "sync_everything",
    "write_aside",
    "write_new",
    "write_parts",
    "write_soon",
]
