"""Calls of the operating system that the standard library does not have, by ctypes."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Callable
from typing import Any

__all__ = [
    "advise",
    "keep_memory",
    "map_pages",
    "open_inotify",
    "punch_hole",
    "unmap_pages",
    "watch_folder",
    "write_back",
]

_KEEP_SIZE = 0x01
_PUNCH_HOLE = 0x02
_BEGIN = 0x02
_WAIT = 0x01 | _BEGIN | 0x04
_INOTIFY_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC  # Linux has given them the same numbers.
_ONLY_FOLDER = 0x01000000
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # As glibc numbers them.
_LARGEST_KEPT = 32 << 20
_UNSUPPORTED = {errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.ESPIPE}

_libc = ctypes.CDLL(None, use_errno=True)
_ADDRESS, _SIZE = ctypes.c_void_p, ctypes.c_size_t
_MAP = ctypes.CFUNCTYPE(
    _ADDRESS,
    _ADDRESS,
    _SIZE,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
    use_errno=True,
)(("mmap", _libc))
_UNMAP = ctypes.CFUNCTYPE(ctypes.c_int, _ADDRESS, _SIZE, use_errno=True)(("munmap", _libc))
_ADVISE = ctypes.CFUNCTYPE(ctypes.c_int, _ADDRESS, _SIZE, ctypes.c_int, use_errno=True)(
    ("madvise", _libc)
)
_FAILED = _ADDRESS(-1).value


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


def map_pages(descriptor: int, length: int) -> int:
    """Map the first bytes of a file, to be read and shared with all who map it; gives the address.

    The descriptor may be closed behind that. Raises OSError.
    """
    address = _MAP(None, length, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    if address == _FAILED or address is None:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(address)


def unmap_pages(address: int, length: int, _unmap: Callable[[int, int], int] = _UNMAP) -> None:
    """Undo that; nobody may look there any more."""
    _unmap(address, length)


def advise(address: int, length: int, advice: int) -> None:
    """Tell the system how mapped pages will be read; raises OSError."""
    _done(_ADVISE, address, length, advice)


def keep_memory(byte_count: int) -> None:
    """Have up to so many free bytes of this process kept for what comes, by all threads together.

    What goes back to the system with each large message is cleared and mapped anew for the next
    one. For processes of our own alone, before they have threads. Nothing happens where the C
    library has no such call.
    """
    tell = getattr(_libc, "mallopt", None)
    if tell is not None:
        tell(_ARENA_MAX, 1)
        tell(_MMAP_THRESHOLD, _LARGEST_KEPT)
        tell(_TRIM_THRESHOLD, byte_count)


def open_inotify() -> int:
    """Give a descriptor that tells of changes to folders; it never blocks and closes on exec.

    Raises OSError where the system has no such thing, or gives no more of it to this user.
    """
    return _number("inotify_init1", _INOTIFY_FLAGS)


def watch_folder(descriptor: int, path: str, mask: int) -> int:
    """Have such a descriptor tell of the changes in ``mask``, and of no others, to one folder.

    Gives the number of the folder's watch: the same one each time. Raises OSError.
    """
    return _number("inotify_add_watch", descriptor, os.fsencode(path), mask | _ONLY_FOLDER)


def _number(name: str, *arguments: Any) -> int:  # noqa: ANN401
    """Make a call that gives a number, again if a signal came in between; raises OSError."""
    call = getattr(_libc, name, None)
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    while (found := call(*arguments)) < 0:
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number))
    return int(found)


def _done(call: Callable[..., int], *arguments: Any) -> bool:  # noqa: ANN401
    """Do it, again if a signal came in between; False if the system cannot."""
    while call(*arguments) != 0:
        number = ctypes.get_errno()
        if number in _UNSUPPORTED:
            return False
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number))
    return True
