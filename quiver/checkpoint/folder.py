"""The checkpoint folder of a streaming query: what it committed, read without Spark.

::

    metadata            {"id":"<query>"}
    offsets/<N>         v1 | {...} | one line of JSON for each source, "-" for none
    commits/<N>         v1 | {...}
    state/...           of queries that keep state

Batch N is committed once ``commits/N`` is there; ``offsets/N`` says where it ended. Spark writes
all of it without a sync, so nobody may rely on it before ``sync`` returned.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from quiver.disk import Disk, LocalDisk, Stat
from quiver.errors import ConfigError, DamagedEntry, MissingError, StorageError, VersionError

__all__ = ["CheckpointFolder", "local_path", "numbered", "sync_file", "sync_way"]

_VERSION: Final = "v1"
_SOURCES_FROM: Final = 2
"""The line of the first source, behind version and metadata."""
_BYTES_MAX: Final = 64 << 20
_SEQ_MAX: Final = 1 << 63


class CheckpointFolder:
    """Reads one checkpoint and makes durable what Spark wrote there."""

    def __init__(self, path: str) -> None:
        """Look at the folder; it may not be there yet. ConfigError if it is not a local one."""
        self.path = local_path("checkpointLocation", path)
        self._disk: LocalDisk | None = None
        self._synced: dict[str, tuple[int, int]] = {}
        self._way_synced = False

    @property
    def disk(self) -> LocalDisk | None:
        """The folder; None if it is not there yet."""
        if self._disk is None:
            with suppress(MissingError):
                self._disk = LocalDisk(self.path)
        return self._disk

    def changed_ns(self) -> int:
        """When a batch was committed last, as far as the folder tells; 0 if none ever was."""
        found = None if self.disk is None else self.disk.stat("commits")
        return 0 if found is None else found.modified_ns

    @property
    def is_begun(self) -> bool:
        """Whether any batch was ever planned, committed or not."""
        return self.disk is not None and bool(numbered(self.disk, "offsets"))

    def committed(self) -> list[int]:
        """List the batches that are known to be committed, ascending."""
        return [] if self.disk is None else numbered(self.disk, "commits")

    def is_whole(self, batch: int) -> bool:
        """Whether the entry of a committed batch is what Spark writes: a crash may leave less."""
        lines = self._lines(f"commits/{batch}")
        return len(lines) > 1 and bool(lines[1])

    def offsets(self, batch: int) -> list[Any]:
        """Give where a batch ended, for each source: JSON values, None for a source without one.

        Raises MissingError, DamagedEntry, VersionError.
        """
        path = f"offsets/{batch}"
        lines = self._lines(path)
        if len(lines) <= _SOURCES_FROM:
            raise DamagedEntry(
                "an entry of the checkpoint ends early", path=posixpath.join(self.path, path)
            )
        try:
            return [None if line == "-" else json.loads(line) for line in lines[_SOURCES_FROM:]]
        except ValueError as error:
            raise DamagedEntry(
                "an offset in the checkpoint is no JSON", path=posixpath.join(self.path, path)
            ) from error

    def _lines(self, path: str) -> list[str]:
        place = posixpath.join(self.path, path)
        if self.disk is None:
            raise MissingError(f"there is no checkpoint in {self.path}", path=place)
        with closing(self.disk.open(path)) as file:
            text = file.read(0, _BYTES_MAX).decode(errors="replace")
        lines = text.split("\n")
        if lines[0] != _VERSION:
            if not lines[0].startswith("v"):
                raise DamagedEntry(
                    "an entry of the checkpoint has no version", path=place, found=lines[0][:20]
                )
            raise VersionError(
                f"{place} is of version {lines[0][:20]}, known is {_VERSION}",
                hint="it is of a newer Spark, or of another way to keep offsets",
            )
        return lines

    def sync(self, batch: int) -> None:
        """Return once a batch is committed whatever happens to the machine."""
        if self.disk is None:
            return
        for path in ("metadata", f"offsets/{batch}", f"commits/{batch}"):
            with suppress(MissingError):
                sync_file(self.disk, path)
        for folder in ("offsets", "commits", ""):
            self.disk.sync_dir(folder)
        if self.disk.stat("state") is not None:
            self._sync_tree(self.disk, "state")
        if not self._way_synced:
            sync_way(self.path)
            self._way_synced = True

    def _sync_tree(self, disk: LocalDisk, folder: str) -> None:
        """Sync all files below a folder that changed since the last time."""
        changed = False
        for stat in disk.list_dir(folder):
            path = posixpath.join(folder, stat.name)
            if not stat.is_file:
                if not stat.is_link:
                    self._sync_tree(disk, path)
                continue
            seen = stat.size, stat.modified_ns
            if self._synced.get(path) != seen:
                with suppress(MissingError):  # Spark clears up behind itself.
                    sync_file(disk, path)
                    self._synced[path] = seen
                    changed = True
        if changed:
            disk.sync_dir(folder)

    def close(self) -> None:
        """Let go of the folder."""
        if self._disk is not None:
            self._disk.close()
            self._disk = None


def numbered(disk: Disk, folder: str) -> list[int]:
    """List the files of a folder whose names are numbers, ascending; none if it is not there."""
    return sorted(int(stat.name) for stat in _files(disk, folder) if _is_number(stat.name))


def _files(disk: Disk, folder: str) -> Iterator[Stat]:
    if disk.stat(folder) is not None:
        yield from (stat for stat in disk.list_dir(folder) if stat.is_file)


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit() and str(int(name)) == name and int(name) < _SEQ_MAX


def sync_file(disk: Disk, path: str) -> None:
    """Return once the bytes of a file survive a power cut."""
    with closing(disk.open(path)) as file:
        file.sync()


def sync_way(path: str) -> None:
    """Make the names of all folders above a path durable: somebody may just have made them.

    One that may not be opened was there before.
    """
    folder = path
    while folder != (folder := posixpath.dirname(folder)):
        try:
            with closing(LocalDisk(folder)) as disk:
                disk.sync_dir("")
        except StorageError as error:
            if not isinstance(error.__cause__, PermissionError):
                raise


def local_path(option: str, value: str) -> str:
    """Read a path as Spark takes it, ``file:`` included; ConfigError if it is on no local disk."""
    parts = urlsplit(value)
    if parts.scheme == "file":
        value = unquote(parts.path)
    elif parts.scheme and "://" in value:
        raise ConfigError(
            f"{option}: {value!r} is not on a disk of this machine",
            hint="what Spark wrote must be synced before bundles may go, which only works there",
        )
    if not posixpath.isabs(value):
        raise ConfigError(f"{option}: {value!r} is not a whole path", hint="begin it with /")
    return posixpath.normpath(value)
