"""Give the blocks of a file's range back without moving the rest of it.

The standard library has no call for it, so ``fallocate`` is reached by ctypes.
"""

from __future__ import annotations

import ctypes
import errno
import os

__all__ = ["punch_hole"]

_KEEP_SIZE = 0x01
_PUNCH_HOLE = 0x02
_UNSUPPORTED = {errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}

_libc = ctypes.CDLL(None, use_errno=True)


def punch_hole(descriptor: int, offset: int, length: int) -> bool:
    """Zero ``[offset, offset + length)`` and free its blocks; False if the system cannot."""
    fallocate = getattr(_libc, "fallocate", None)
    if fallocate is None or length <= 0:
        return False
    arguments = (ctypes.c_int64(offset), ctypes.c_int64(length))
    if fallocate(descriptor, _KEEP_SIZE | _PUNCH_HOLE, *arguments) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number))
