"""The rows that a file sink wrote, made durable: the files that its log names, and the log.

``<sink>/_spark_metadata/<N>`` lists the files of batch N; each tenth is ``<N>.compact`` and lists
those of all batches before it as well. Another sink has no such log. It says how large each file
is: one that is smaller was cut off with the power, though its batch is committed.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable
from contextlib import closing, suppress
from typing import Final
from urllib.parse import unquote, urlsplit

from quiver.checkpoint.folder import local_path, sync_file, sync_way
from quiver.disk import LocalDisk
from quiver.errors import ConfigError, DamagedEntry, MissingError

__all__ = ["FileSink"]

_LOG: Final = "_spark_metadata"
_COMPACT: Final = ".compact"
_BYTES_MAX: Final = 1 << 30


class FileSink:
    """The folder that a query writes files into."""

    def __init__(self, path: str) -> None:
        """Take the folder; it may not be there yet. ConfigError if it is not a local one."""
        self.path = local_path("sink", path)
        self._synced: set[str] = set()
        self._way_synced = False

    def sync(self, batches: Iterable[int]) -> None:
        """Return once all files of these batches survive a power cut.

        Raises ConfigError if the folder has no log of them: it is not where this query writes;
        DamagedEntry if a file is not as large as Spark wrote it.
        """
        wanted = sorted(batches)
        if not wanted:
            return
        try:
            disk = LocalDisk(self.path)
        except MissingError:
            raise self._not_here(wanted[0]) from None
        with closing(disk):
            logs = self._logs(disk)
            folders = {""}
            for log in dict.fromkeys(self._log_of(logs, batch) for batch in wanted):
                for path, size in self._files(disk, log):
                    if path not in self._synced:
                        with suppress(MissingError):  # Whoever deleted it meant to.
                            sync_file(disk, path)
                            _check_whole(disk, path, size)
                        self._synced.add(path)
                        folders |= _folders(path)
                sync_file(disk, f"{_LOG}/{log}")
            for folder in sorted(folders, reverse=True):  # Names in them before their own.
                with suppress(MissingError):
                    disk.sync_dir(folder)
            disk.sync_dir(_LOG)
        if not self._way_synced:
            sync_way(self.path)
            self._way_synced = True

    def _logs(self, disk: LocalDisk) -> dict[int, str]:
        """List the logs by the number of their batch; where both are there, the compacted one."""
        found: dict[int, str] = {}
        if disk.stat(_LOG) is not None:
            for stat in disk.list_dir(_LOG):
                number = stat.name.removesuffix(_COMPACT)
                if stat.is_file and number.isascii() and number.isdigit():
                    found[int(number)] = stat.name
        return found

    def _log_of(self, logs: dict[int, str], batch: int) -> str:
        if batch in logs:
            return logs[batch]
        later = [n for n, name in logs.items() if n > batch and name.endswith(_COMPACT)]
        if not later:
            raise self._not_here(batch)
        return logs[min(later)]

    def _files(self, disk: LocalDisk, log: str) -> list[tuple[str, object]]:
        place = f"{_LOG}/{log}"
        with closing(disk.open(place)) as file:
            lines = file.read(0, _BYTES_MAX).decode(errors="replace").splitlines()
        found = []
        for line in lines[1:]:
            try:
                entry = json.loads(line)
                path = unquote(urlsplit(entry["path"]).path)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise DamagedEntry(
                    "the log of the sink names a file in no way that is known",
                    path=posixpath.join(self.path, place),
                    found=line[:80],
                ) from error
            relative = posixpath.relpath(path, self.path)
            if relative.startswith(".."):
                raise DamagedEntry(
                    "the log of the sink names a file that is elsewhere",
                    path=posixpath.join(self.path, place),
                    found=path,
                )
            found.append((relative, entry.get("size")))
        return found

    def _not_here(self, batch: int) -> ConfigError:
        return ConfigError(
            f"sink: {self.path} has no log of batch {batch}",
            hint="name the folder that this query writes files into; for another sink leave the "
            "option out, or say synced if that makes its rows durable itself",
        )


def _check_whole(disk: LocalDisk, path: str, size: object) -> None:
    """Raise DamagedEntry unless a file has the size that the log says, if it says one."""
    found = disk.stat(path)
    if found is not None and isinstance(size, int) and found.size != size:
        raise DamagedEntry(
            "a file of the sink is not what Spark wrote: its batch is committed, and what is "
            "missing here was never on the disk",
            path=disk.locate(path),
            expected=size,
            found=found.size,
            hint="its rows are still in the store: take the query back to the batch before, as "
            "STREAMING.md says under 'After a power cut'",
        )


def _folders(path: str) -> set[str]:
    """Give the folders between the sink and a file in it."""
    found = set()
    while path := posixpath.dirname(path):
        found.add(path)
    return found
