"""Calls of the operating system that the standard library does not have, by ctypes."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from typing import Any

__all__ = ["punch_hole", "write_back"]

_KEEP_SIZE = 0x01
_PUNCH_HOLE = 0x02
_BEGIN = 0x02
_WAIT = 0x01 | _BEGIN | 0x04
_UNSUPPORTED = {errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.ESPIPE}

_libc = ctypes.CDLL(None, use_errno=True)


def punch_hole(descriptor: int, offset: int, length: int) -> bool:
    """Zero ``[offset, offset + length)`` and free its blocks; False if the system cannot."""
    fallocate = getattr(_libc, "fallocate", None)
    if fallocate is None or length <= 0:
        return False
    arguments = (ctypes.c_int64(offset), ctypes.c_int64(length))
    return _done(fallocate, descriptor, _KEEP_SIZE | _PUNCH_HOLE, *arguments)


def write_back(descriptor: int, offset: int, length: int, *, wait: bool) -> None:
    """Have ``[offset, offset + length)`` written to the disk, and ``wait`` for it or not.

    Not durable by this. Raises OSError if the system could not write it; the next sync may not
    say that again. Nothing happens where the system has no such call.
    """
    sync_range = getattr(_libc, "sync_file_range", None)  # Linux has it.
    if sync_range is not None:
        flags = _WAIT if wait else _BEGIN
        _done(sync_range, descriptor, ctypes.c_int64(offset), ctypes.c_int64(length), flags)


def _done(call: Callable[..., int], *arguments: Any) -> bool:  # noqa: ANN401
    """Do it, again if a signal came in between; False if the system cannot."""
    while call(*arguments) != 0:
        number = ctypes.get_errno()
        if number in _UNSUPPORTED:
            return False
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number))
    return True
