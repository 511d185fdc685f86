"""What is new in the folders, and whether it is whole.

==========================  ===========================================================
a file                      is taken
==========================  ===========================================================
``.x``, ``_x``, ``x.tmp``   never: hidden or temporary, and a folder's files with it
of no bytes                 never
a link, or what is no file  never: links are not followed
``.parquet .pq``            once it ends as Parquet does
``.arrow .feather .ipc``    once it ends as an Arrow file or stream does
``.arrows``
``.csv .tsv``               once two looks find the same size and time, ``settle`` apart
``.ndjson .jsonl .json``
==========================  ===========================================================
"""

from __future__ import annotations

import errno
import fnmatch
import posixpath
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Final, NamedTuple

from quiver.clock import Clock
from quiver.disk import Disk, Stat
from quiver.errors import MissingError, SourceError, StorageError
from quiver.source.files.shapes import STREAM_HEAD
from quiver.source.format import FileEntry

__all__ = ["SUFFIXES", "Finder", "format_of"]

SUFFIXES: Final[dict[str, str]] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".csv": "csv",
    ".tsv": "csv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".json": "ndjson",
}
_HIDDEN: Final = (".", "_")
_UNFINISHED: Final = (
    ".tmp",
    ".temp",
    ".part",
    ".partial",
    ".inprogress",
    ".crdownload",
    ".swp",
    "._copying_",
    "~",
)
_PARQUET: Final = b"PAR1"
_ARROW: Final = b"ARROW1"
_STREAM_END: Final = STREAM_HEAD + bytes(4)
_PARQUET_MIN: Final = 12


class Seen(NamedTuple):
    """How a file that may still grow looked, and since when."""

    size: int
    modified_ns: int
    since_ns: int


def format_of(path: str, given: str | None) -> str | None:
    """Give the format of a file: the one that was given for all, or by its name."""
    return given or SUFFIXES.get(posixpath.splitext(path)[1].lower())


class Finder:
    """Looks through the folders of a disk. One thread uses it."""

    def __init__(
        self,
        disk: Disk,
        *,
        clock: Clock,
        pattern: str = "*",
        given_format: str | None = None,
        settle_ns: int = 0,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._pattern = pattern
        self._format = given_format
        self._settle_ns = settle_ns
        self._seen: dict[str, Seen] = {}
        self.changed: set[str] = set()
        """Files that are not any more what they were when they were found; as of the last look."""

    @property
    def waiting(self) -> list[str]:
        """The files that were not whole at the last look, in order."""
        return sorted(self._seen)

    def look(self, known: Mapping[str, FileEntry]) -> list[FileEntry]:
        """Find the files that are whole and not known, the oldest first.

        Raises SourceError if the folder itself cannot be listed.
        """
        now = self._clock.monotonic_ns()
        found: list[FileEntry] = []
        waiting: dict[str, Seen] = {}
        self.changed = set()
        for path, stat in self._walk():
            entry = FileEntry(path, stat.size, stat.modified_ns)
            before = known.get(path)
            if before is not None:
                if before != entry:
                    self.changed.add(path)
                continue
            seen = self._seen.get(path)
            if seen is None or (seen.size, seen.modified_ns) != (stat.size, stat.modified_ns):
                seen = Seen(stat.size, stat.modified_ns, now)
            if self._is_whole(entry, seen, now):
                found.append(entry)
            else:
                waiting[path] = seen
        self._seen = waiting
        return sorted(found, key=lambda entry: (entry.modified_ns, entry.path))

    def _walk(self) -> Iterator[tuple[str, Stat]]:
        todo = [""]
        while todo:
            folder = todo.pop()
            try:
                stats = self._disk.list_dir(folder)
            except MissingError as error:
                if folder:
                    continue  # It went while we looked.
                raise SourceError(
                    f"there is no folder {self._disk.locate('')}",
                    retryable=True,
                    hint="is its file system mounted?",
                ) from error
            except StorageError as error:
                if folder and error.errno == errno.ENOTDIR:
                    continue  # A pipe or a socket.
                raise
            for stat in stats:
                name = stat.name
                if stat.is_link or name.startswith(_HIDDEN) or name.lower().endswith(_UNFINISHED):
                    continue
                path = f"{folder}/{name}" if folder else name
                if not stat.is_file:
                    todo.append(path)
                elif stat.size and self._is_meant(path, name):
                    yield path, stat

    def _is_meant(self, path: str, name: str) -> bool:
        matches = fnmatch.fnmatchcase(name, self._pattern)
        return matches and format_of(path, self._format) is not None

    def _is_whole(self, entry: FileEntry, seen: Seen, now: int) -> bool:
        kind = format_of(entry.path, self._format)
        if kind in ("parquet", "arrow"):
            try:
                return self._has_footer(entry, kind)
            except MissingError:
                return False  # It went while we looked.
        before = self._seen.get(entry.path)
        return before == seen and now - seen.since_ns >= self._settle_ns

    def _has_footer(self, entry: FileEntry, kind: str) -> bool:
        with closing(self._disk.open(entry.path)) as file:
            if file.size() != entry.size:
                return False
            head = file.read(0, 8)
            tail = file.read(max(entry.size - 10, 0), 10)
        if kind == "parquet":
            length = int.from_bytes(tail[-8:-4], "little") + _PARQUET_MIN
            return head[:4] == _PARQUET == tail[-4:] and length <= entry.size
        if head.startswith(STREAM_HEAD):
            return tail.endswith(_STREAM_END)
        length = int.from_bytes(tail[:4], "little") + 2 * len(_ARROW) + 4
        return head.startswith(_ARROW) and tail.endswith(_ARROW) and length <= entry.size
