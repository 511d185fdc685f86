"""The register of a source: every file that was ever found whole, in the order in which it was.

A file's number decides its split (number modulo the count of splits) and its place there, so a
state is two numbers, however many files there are, and means the same for ever. One process
extends a register, under its lock; any may read it. A line of it is durable, twice, before anybody
reads a file that it names.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Final

from blake3 import blake3

from quiver.clock import Clock
from quiver.disk import Disk, File, Lock
from quiver.errors import (
    ClosedError,
    ConfigError,
    DamageError,
    MissingError,
    TornEntry,
    VersionError,
)
from quiver.source.files.copies import COPIES, REGISTER_NAME, lines_of, make_copies, mend
from quiver.source.format import (
    GROUP_MAX,
    FileEntry,
    Head,
    decode_group,
    decode_head,
    encode_group,
    encode_head,
)

__all__ = ["REGISTER_NAME", "Register"]

_LOCK_NAME: Final = "register.lock"
_BLOCK: Final = 1 << 20
_ID_BYTES: Final = 8


class Register:
    """The files ``register`` and ``register.copy`` of a disk, with all entries in memory.

    Any thread may use it.
    """

    def __init__(self, disk: Disk) -> None:
        """Look at nothing yet."""
        self._disk = disk
        self._lock = threading.Lock()
        self._held: Lock | None = None
        self._head: Head | None = None
        self._entries: list[FileEntry] = []
        self._by_path: dict[str, FileEntry] = {}
        self._indexed = 0
        self._end = 0
        self._fault: DamageError | None = None

    @property
    def place(self) -> str:
        """The path that a person would use."""
        return self._disk.locate(REGISTER_NAME)

    @property
    def head(self) -> Head:
        """Which register this is; raises MissingError if nobody made it yet."""
        with self._lock:
            return self._known_head()

    def entry(self, number: int) -> FileEntry | None:
        """Give a file by its number, or None if there is none of it yet."""
        with self._lock:
            return self._entries[number] if number < len(self._entries) else None

    def refresh(self) -> None:
        """Take in what another process appended."""
        with self._lock:
            if self._held is None:
                self._read()

    def known(self) -> Mapping[str, FileEntry]:
        """Give each file by its path."""
        with self._lock:
            for entry in self._entries[self._indexed :]:
                self._by_path[entry.path] = entry
            self._indexed = len(self._entries)
            return self._by_path

    def open_to_extend(self, split_count: int, clock: Clock) -> None:
        """Become the one who extends it; it is made if it is not there.

        What an append that was cut short left at its end is cut off: nobody was told of it. A line
        that is damaged is mended by its copy. Raises LockedError if another process extends it,
        DamageError if lines are damaged in both copies, and ConfigError if it was made for another
        number of splits.
        """
        with self._lock:
            if self._held is not None:
                return
            held = self._disk.lock(_LOCK_NAME)
            try:
                self._take_over(split_count, clock)
            except BaseException:
                held.release()
                raise
            self._held = held

    def extend(self, files: Sequence[FileEntry]) -> None:
        """Give files their numbers; when this returns they are durable, and may be read.

        After an error it has to be opened to extend again: what is on the disk is not known.
        """
        with self._lock:
            if self._held is None:
                raise ClosedError("the register is not open to extend", hint="make an enumerator")
            try:
                with ExitStack() as stack:
                    copies = [self._disk.open(name, writable=True) for name in COPIES]
                    for file in copies:
                        stack.callback(file.close)
                    for start in range(0, len(files), GROUP_MAX):
                        self._append(copies, files[start : start + GROUP_MAX])
            except BaseException:
                self._release()
                raise

    def close(self) -> None:
        """Let another process extend it; what is known stays readable."""
        with self._lock:
            self._release()

    def _append(self, files: Sequence[File], group: Sequence[FileEntry]) -> None:
        line = encode_group(len(self._entries), group)
        for file in files:
            file.write(self._end, line)
            file.sync()
        self._end += len(line)
        self._entries += group

    def _release(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.release()

    def _known_head(self) -> Head:
        if self._head is None:
            self._read()
        if self._head is None:
            raise MissingError(
                f"there is no register {self.place}",
                path=self.place,
                hint="an enumerator makes it: list the splits first",
            )
        return self._head

    def _take_over(self, split_count: int, clock: Clock) -> None:
        self._head, self._entries, self._end = None, [], 0
        self._by_path, self._indexed, self._fault = {}, 0, None
        if not mend(self._disk):
            seed = f"{self.place} {clock.wall_ns()} {clock.monotonic_ns()}"
            head = Head(blake3(seed.encode()).hexdigest(_ID_BYTES), split_count)
            make_copies(self._disk, encode_head(head))
        head = self._known_head()
        if self._fault is not None:  # All lines are as they were written, so none was cut short.
            raise self._fault
        if head.split_count != split_count:
            raise ConfigError(
                f"{self.place} has {head.split_count} splits, not {split_count}",
                hint="the number of splits is for life; a new register reads all files again",
            )

    def _read(self) -> None:
        """Take in what was appended since the last look: where one copy is damaged, by the other.

        They are equal, so whatever one has behind a place belongs behind that place.
        """
        first, second = COPIES
        self._read_on(first)
        while self._read_on(second) and self._read_on(first):
            pass
        if self._head is not None:
            return
        if self._fault is not None:
            raise self._fault
        if any(self._disk.stat(name) is not None for name in COPIES):
            raise TornEntry("the register is empty", path=self.place)

    def _read_on(self, name: str) -> bool:
        """Read on in one copy, as far as its lines are sound; says whether there were any."""
        start = self._end
        if self._disk.stat(name) is None:
            return False
        with closing(self._disk.open(name)) as file:
            for line in _file_lines(file, self._end):
                try:
                    if self._head is None:
                        self._head = decode_head(line)
                    else:
                        self._entries += decode_group(line, len(self._entries))
                except DamageError as error:
                    self._fault = error.at(self._disk.locate(name))
                    break  # An append that is under way, or was cut short.
                except VersionError as error:
                    place = self._disk.locate(name)
                    raise VersionError(f"{place}: {error.message}", hint=error.hint) from error
                self._end += len(line)
        return self._end > start


def _file_lines(file: File, start: int) -> Iterator[bytes]:
    """Give whole lines, and what is behind the last of them, if anything is."""
    rest = b""
    while block := file.read(start + len(rest), _BLOCK):
        rest += block
        cut = rest.rfind(b"\n") + 1
        yield from lines_of(rest[:cut])
        start += cut
        rest = rest[cut:]
    if rest:
        yield rest
