"""Take a real folder into RAM, so that one judge serves every kind of crash."""

from __future__ import annotations

import errno
import os
import stat

from quiver.disk.local_file import refused
from quiver.errors import StorageError
from quiver.testing.acts import Create, MakeDir
from quiver.testing.file_tree import ROOT, Blob, Tree

__all__ = ["read_tree"]

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def read_tree(folder: str) -> Tree:
    """Copy names, modes, bytes and holes of all below a folder; nothing if there is no folder.

    Raises StorageError if something is neither file nor folder, or cannot be read.
    """
    tree = Tree()
    try:
        if os.path.isdir(folder):
            _read_folder(tree, ROOT, folder)
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise refused(error, "read", error.filename or folder) from error
    return tree


def _read_folder(tree: Tree, inode: int, place: str) -> None:
    with os.scandir(place) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        child = len(tree.blobs) + len(tree.folders)
        if entry.is_dir(follow_symlinks=False):
            tree.apply(MakeDir(inode, entry.name, child, entry.path))
            _read_folder(tree, child, entry.path)
        elif entry.is_file(follow_symlinks=False):
            mode = stat.S_IMODE(entry.stat(follow_symlinks=False).st_mode)
            tree.apply(Create(inode, entry.name, child, mode, entry.path))
            _read_file(tree.blob(child), entry.path)
        else:
            raise StorageError(f"{entry.path} is neither a file nor a folder", path=entry.path)


def _read_file(blob: Blob, place: str) -> None:
    descriptor = os.open(place, _FLAGS)
    try:
        size = os.fstat(descriptor).st_size
        end = 0
        while (start := _next_data(descriptor, end)) is not None:
            end = os.lseek(descriptor, start, os.SEEK_HOLE)
            offset = start
            while offset < end and (data := os.pread(descriptor, end - offset, offset)):
                blob.write(offset, data)
                offset += len(data)
        blob.truncate(size)
    finally:
        os.close(descriptor)


def _next_data(descriptor: int, offset: int) -> int | None:
    try:
        return os.lseek(descriptor, offset, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return None
        raise
