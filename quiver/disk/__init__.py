"""The only door to the operating system.

=============  ====================================================================
``vfs``        the protocols ``Disk`` and ``File``: what each act promises
``local``      the real one
``replace``    a small file, old or new but never half: temporary, sync, rename, sync
``copying``    from file to file, inside the system where it can
``quarantine`` damaged bytes set aside, with the reason
``lock``       one writer for a folder
``held``       locks taken once for work on many folders
``overlay``    another disk with changes that nobody else sees
``punch``      give a range of a file back to the disk
=============  ====================================================================
"""

from quiver.disk.copying import copy_bytes
from quiver.disk.held import HeldDisk
from quiver.disk.local import LocalDisk
from quiver.disk.overlay import OverlayDisk
from quiver.disk.quarantine import copy_file, copy_range, save_bytes
from quiver.disk.replace import TEMPORARY, is_temporary, remove, replace, write_new
from quiver.disk.vfs import FILE_MODE, SEALED_MODE, Bytes, Disk, File, Lock, Stat

__all__ = [
    "FILE_MODE",
    "SEALED_MODE",
    "TEMPORARY",
    "Bytes",
    "Disk",
    "File",
    "HeldDisk",
    "LocalDisk",
    "Lock",
    "OverlayDisk",
    "Stat",
    "copy_bytes",
    "copy_file",
    "copy_range",
    "is_temporary",
    "remove",
    "replace",
    "save_bytes",
    "write_new",
]
