"""The few calls of Linux that the standard library has no word for. They need root.

=================  =========================================================================
call               what it does
=================  =========================================================================
``mount``          make a block device, or a file system in RAM, appear below a folder
``limit_ram``      give a file system in RAM another size
``unmount``        take it away; it may stay busy while files are open or mapped
``shut_down``      stop a file system dead, as a power cut would: ext4 and XFS have a call for it
``write_back``     write the dirty pages of a file, as the kernel may do whenever it likes
``sync_all``       write everything that a file system has in RAM
``trim``           give the free blocks of a file system back to what is below it
``LoopDevice``     a block device whose blocks are the bytes of a file
=================  =========================================================================
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
from enum import IntEnum
from typing import Final

from quiver.errors import StorageError

__all__ = [
    "LoopDevice",
    "Power",
    "limit_ram",
    "mount",
    "shut_down",
    "sync_all",
    "trim",
    "unmount",
    "write_back",
]

_SHUTDOWN: Final = 0x8004587D  # EXT4_IOC_SHUTDOWN and XFS_IOC_GOINGDOWN are one number.
_TRIM: Final = 0xC0185879
_FORGET: Final = 0x1261
_FREE_LOOP: Final = 0x4C82
_CONFIGURE_LOOP: Final = 0x4C0A
_WRITE_AND_WAIT: Final = 1 | 2 | 4
_DETACH: Final = 2
_REMOUNT: Final = 32

# struct loop_config: fd, block_size, then struct loop_info64 with its flags, then room.
_LOOP_CONFIG: Final = struct.Struct("<II 5Q 4I 64s 64s 32s 2Q 8Q")
_AUTOCLEAR: Final = 4
_ATTEMPTS: Final = 100

_libc = ctypes.CDLL(None, use_errno=True)


class Power(IntEnum):
    """What still gets to the disk when the power goes."""

    JOURNAL = 1
    """All names and sizes, but no bytes that were not synced."""
    NOTHING = 2
    """What was synced and no more."""


def mount(source: str, target: str, *, kind: str, options: str = "") -> None:
    """Mount ``source`` at the folder ``target``."""
    arguments = (os.fsencode(source), os.fsencode(target), kind.encode(), 0, options.encode())
    _check(_libc.mount(*arguments), "mount", target)


def limit_ram(target: str, size: int) -> None:
    """Let the file system in RAM at ``target`` hold so many bytes from now on, and no more."""
    arguments = (os.fsencode(target), b"tmpfs", _REMOUNT, f"size={size}".encode())
    _check(_libc.mount(b"tmpfs", *arguments), "limit", target)


def unmount(target: str, *, detach: bool = False) -> None:
    """Unmount; ``detach`` takes the name away at once and the rest when nothing is busy."""
    _check(_libc.umount2(os.fsencode(target), _DETACH if detach else 0), "unmount", target)


def shut_down(target: str, power: Power) -> None:
    """Stop the file system at ``target``: from now on it answers every act with EIO."""
    _control(target, _SHUTDOWN, struct.pack("<I", power))


def sync_all(target: str) -> None:
    """Write all that the file system at ``target`` has in RAM."""
    descriptor = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _check(_libc.syncfs(descriptor), "sync", target)
    finally:
        os.close(descriptor)


def write_back(path: str) -> None:
    """Write the dirty pages of one file, and neither its size nor anything else about it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        whole = (ctypes.c_int64(0), ctypes.c_int64(0))
        _check(_libc.sync_file_range(descriptor, *whole, _WRITE_AND_WAIT), "write", path)
    finally:
        os.close(descriptor)


def trim(target: str) -> None:
    """Give back all free blocks of the file system at ``target``."""
    _control(target, _TRIM, struct.pack("<QQQ", 0, (1 << 64) - 1, 0))


class LoopDevice:
    """A block device over an open file; it goes when it is closed and unmounted, or its process."""

    def __init__(self, image: int) -> None:
        """Take the first free device; raises StorageError if this machine gives none."""
        try:
            self.path, self._descriptor = _attach(image)
        except OSError as error:
            raise _refused(error, "attach", "a loop device") from error

    def forget(self) -> None:
        """Drop what the kernel has cached of the device, which is not mounted.

        Else a file system finds there, after a cut, changes to itself that it never committed.
        """
        try:
            fcntl.ioctl(self._descriptor, _FORGET)
        except OSError as error:
            raise _refused(error, "drop the cache of", self.path) from error

    def close(self) -> None:
        """Let go of the device; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _attach(image: int) -> tuple[str, int]:
    config = _LOOP_CONFIG.pack(image, 0, *[0] * 8, _AUTOCLEAR, b"", b"", b"", *[0] * 10)
    control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
    try:
        for _ in range(_ATTEMPTS):
            path = f"/dev/loop{fcntl.ioctl(control, _FREE_LOOP)}"
            device = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.ioctl(device, _CONFIGURE_LOOP, config)
            except OSError as error:
                os.close(device)
                if error.errno != errno.EBUSY:
                    raise
            else:
                return path, device  # Nobody else was faster.
    finally:
        os.close(control)
    raise OSError(errno.EBUSY, "others took each free one first")


def _control(target: str, request: int, argument: bytes) -> None:
    descriptor = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(descriptor, request, argument)
    except OSError as error:
        raise _refused(error, f"ask {request:#x} of", target) from error
    finally:
        os.close(descriptor)


def _check(result: int, act: str, path: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise _refused(OSError(number, os.strerror(number)), act, path)


def _refused(error: OSError, act: str, path: str) -> StorageError:
    return StorageError(f"cannot {act} {path}: {error.strerror}", path=path, errno=error.errno or 0)
