"""The real disk: a folder of this machine, reached by descriptors relative to its root.

Modes are set when a file is made, links are never followed in the last name, and every
descriptor closes on exec.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat as modes

from quiver.disk.local_file import LocalFile, refused
from quiver.disk.lock import FolderLock
from quiver.disk.mapping import map_file
from quiver.disk.vfs import FILE_MODE, FOLDER_MODE, Lock, Stat
from quiver.errors import InputError, MissingError, StorageError

__all__ = ["LocalDisk", "folder_path"]

_BLOCK = 512


def folder_path(path: object) -> str:
    """Give the absolute path of what a caller names as a folder; raises InputError."""
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str) or not text or "\0" in text:
        raise InputError(f"{path!r} is not the path of a folder", hint="a str or a pathlib.Path")
    return os.path.abspath(text)


class LocalDisk:
    """A folder of this machine. ``create`` makes it (mode 0700) if it is not there."""

    def __init__(self, root: str | os.PathLike[str], *, create: bool = False) -> None:
        """Open the folder; raises MissingError, or StorageError if it is no usable folder."""
        self.root = folder_path(root)
        self._descriptor = -1
        try:
            if create:
                self._make_root()
            self._descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except NotADirectoryError as error:
            raise StorageError(
                f"{self.root} is not a folder",
                path=self.root,
                errno=errno.ENOTDIR,
                hint="a store is a folder; name one, or a path that does not exist yet",
            ) from error
        except FileNotFoundError as error:
            raise MissingError(
                f"there is no folder {self.root}", path=self.root, errno=errno.ENOENT
            ) from error
        except OSError as error:
            raise refused(error, "open", self.root) from error

    def _make_root(self) -> None:
        if os.path.lexists(self.root):
            if not os.path.isdir(self.root):
                raise NotADirectoryError(errno.ENOTDIR, "not a folder", self.root)
            return
        parent = os.path.dirname(self.root)
        missing = []
        while not os.path.lexists(parent):
            missing.append(parent)
            parent = os.path.dirname(parent)
        for folder in [*reversed(missing), self.root]:
            with contextlib.suppress(FileExistsError):  # Another process may be as far as we are.
                os.mkdir(folder, FOLDER_MODE if folder == self.root else 0o777)
            self._sync_place(os.path.dirname(folder))
        os.chmod(self.root, FOLDER_MODE)

    def _sync_place(self, place: str) -> None:
        descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def locate(self, path: str) -> str:
        """Give the absolute path."""
        return os.path.join(self.root, path) if path else self.root

    def is_there(self) -> bool:
        """Whether its path still leads to it: it may have been removed, and another one made."""
        try:
            return os.path.samestat(os.stat(self.root), os.fstat(self._descriptor))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise refused(error, "look at", self.root) from error

    def stat(self, path: str) -> Stat | None:
        """Look at a path without following links; None if there is nothing."""
        try:
            found = os.stat(path or ".", dir_fd=self._descriptor, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise refused(error, "look at", self.locate(path)) from error
        return _stat(os.path.basename(path), found)

    def list_dir(self, path: str) -> list[Stat]:
        """Give a folder's entries in order of name."""
        try:
            descriptor = self._open(path or ".", os.O_RDONLY | os.O_DIRECTORY)
            try:
                found = []
                with os.scandir(descriptor) as entries:
                    for entry in entries:
                        try:
                            found.append(_stat(entry.name, entry.stat(follow_symlinks=False)))
                        except FileNotFoundError:
                            continue  # Deleted since it was listed: readers take no lock.
            finally:
                os.close(descriptor)
        except OSError as error:
            raise refused(error, "list", self.locate(path)) from error
        return sorted(found, key=lambda entry: entry.name)

    def make_dir(self, path: str) -> None:
        """Make one folder with mode 0700; nothing happens if it is there already."""
        try:
            os.mkdir(path, FOLDER_MODE, dir_fd=self._descriptor)
            os.chmod(path, FOLDER_MODE, dir_fd=self._descriptor)
        except FileExistsError as error:
            found = os.stat(path, dir_fd=self._descriptor, follow_symlinks=False)
            if not modes.S_ISDIR(found.st_mode):
                raise refused(error, "make the folder", self.locate(path)) from error
        except OSError as error:
            raise refused(error, "make the folder", self.locate(path)) from error

    def create(self, path: str, *, mode: int = FILE_MODE) -> LocalFile:
        """Make a new file of exactly this mode, whatever the umask says."""
        try:
            descriptor = self._open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
            os.fchmod(descriptor, mode)
        except OSError as error:
            raise refused(error, "create", self.locate(path)) from error
        return LocalFile(descriptor, path, self.locate(path))

    def open(self, path: str, *, writable: bool = False) -> LocalFile:
        """Open a regular file that exists; links are refused."""
        try:
            descriptor = self._open(path, os.O_RDWR if writable else os.O_RDONLY)
        except OSError as error:
            raise refused(error, "open", self.locate(path)) from error
        if not modes.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise StorageError(f"{self.locate(path)} is not a regular file", path=self.locate(path))
        return LocalFile(descriptor, path, self.locate(path))

    def _open(self, path: str, flags: int, mode: int = 0) -> int:
        guarded = flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        return os.open(path, guarded, mode, dir_fd=self._descriptor)

    def map(self, path: str) -> memoryview:
        """Map a finished file read-only; the view keeps the map alive, and no descriptor."""
        file = self.open(path)
        try:
            size = file.size()
            if size == 0:
                return memoryview(b"")
            return map_file(file._descriptor, size)  # noqa: SLF001
        except OSError as error:
            raise refused(error, "map", self.locate(path)) from error
        finally:
            file.close()

    def rename(self, source: str, target: str) -> None:
        """Give a file another name in one step; whatever had that name is gone."""
        here = self._descriptor
        try:
            os.rename(source, target, src_dir_fd=here, dst_dir_fd=here)
        except OSError as error:
            raise refused(error, f"rename to {target}:", self.locate(source)) from error

    def unlink(self, path: str) -> None:
        """Remove a name."""
        try:
            os.unlink(path, dir_fd=self._descriptor)
        except OSError as error:
            raise refused(error, "delete", self.locate(path)) from error

    def sync_dir(self, path: str) -> None:
        """Return once the names in this folder survive a power cut."""
        try:
            descriptor = self._open(path or ".", os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise refused(error, "sync the folder", self.locate(path)) from error

    def lock(self, path: str, *, wait: bool = False) -> Lock:
        """Take the lock file at ``path``; raises LockedError that names the holder, or waits."""
        try:
            try:
                descriptor = self._open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, FILE_MODE)
                os.fchmod(descriptor, FILE_MODE)
            except FileExistsError:
                descriptor = self._open(path, os.O_RDWR)
        except OSError as error:
            raise refused(error, "open the lock", self.locate(path)) from error
        return FolderLock(descriptor, self.locate(path), wait=wait)

    def keep_out(self, path: str) -> Lock | None:
        """Take a lock without a change to its file; None if there is none.

        For whoever only reads, and needs that nobody writes meanwhile.
        """
        if self.stat(path) is None:
            return None
        try:
            descriptor = self._open(path, os.O_RDONLY)
        except OSError as error:
            raise refused(error, "open the lock", self.locate(path)) from error
        return FolderLock(descriptor, self.locate(path), wait=False, announced=False)

    def close(self) -> None:
        """Let go of the root; open files stay usable."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __repr__(self) -> str:
        """Say which folder it is."""
        return f"LocalDisk({self.root!r})"


def _stat(name: str, found: os.stat_result) -> Stat:
    return Stat(
        name,
        modes.S_ISREG(found.st_mode),
        found.st_size,
        found.st_blocks * _BLOCK,
        found.st_mtime_ns,
        modes.S_ISLNK(found.st_mode),
    )
