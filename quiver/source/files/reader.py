"""One split of a folder: every n-th file of the register, in order, piece by piece."""

from __future__ import annotations

import threading
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from quiver.disk import Disk
from quiver.errors import (
    ClosedError,
    DamageError,
    InputError,
    QuiverError,
    SourceError,
)
from quiver.events import Events
from quiver.ipc import ARROW_FAULTS
from quiver.source.files.finding import format_of
from quiver.source.files.opened import Opened
from quiver.source.files.pieces import Piece, Pieces, Place, Wanted
from quiver.source.files.register import Register
from quiver.source.files.shapes import SHAPES
from quiver.source.format import FileEntry
from quiver.source.protocols import Split, SplitBatch
from quiver.source.states import decode_state, encode_state

__all__ = ["OFFSETS", "FilesReader", "FilesState"]

OFFSETS: Final = pa.struct([("file", pa.int64()), ("row", pa.int64())])
"""Where a row is: the number of its file in the register, and its own in the file."""

_VERSION: Final = 1
_EVERY: Final = 0.5
"""Seconds after which a register that another process extends is looked at again."""


class FilesState(NamedTuple):
    """What is next: a file of a register, and how much of it is done."""

    register: str
    file: int
    unit: int = 0
    rows: int = 0
    row: int = 0
    """Rows of the file that are done, in all units."""

    def encode(self) -> str:
        """Write it as text."""
        return encode_state("files", _VERSION, self._asdict())

    @classmethod
    def decode(cls, text: str) -> FilesState:
        """Read what ``encode`` wrote; raises InputError or VersionError."""
        at = decode_state(text, connector="files", version=_VERSION)
        register, *numbers = (at.get(name) for name in cls._fields)
        is_number = [isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in numbers]
        if set(at) != set(cls._fields) or not isinstance(register, str) or not all(is_number):
            raise InputError(
                f"this is no state of a split of files: {text[:200]!r}",
                hint="pass a state as it was handed out, or None for the start",
            )
        return cls(**at)  # type: ignore[arg-type]


class FilesReader:
    """Reads one split from a state on; what it has open is one file."""

    def __init__(
        self,
        disk: Disk,
        register: Register,
        *,
        split: Split,
        state: str | None,
        wanted: Wanted,
        passed: list[str] | None = None,
    ) -> None:
        """Begin behind a state; ``passed`` is told of files that are gone, else they are errors."""
        self._disk = disk
        self._passed = passed
        self._events = Events(source="files", split=split.id)
        self._register = register
        self._split = split
        self._wanted = wanted
        self._bell = threading.Condition()
        self._reading = threading.Lock()
        self._is_closed = False
        self._opened: Opened | None = None
        self._pieces: Pieces | None = None
        head = register.head
        number = _split_number(split, head.split_count)
        self._step = head.split_count
        self._at = FilesState(head.register_id, number)
        if state is not None:
            self._at = FilesState.decode(state)
            self._check(number)

    def _check(self, number: int) -> None:
        at, head = self._at, self._register.head
        if at.register != head.register_id:
            raise InputError(
                f"split {self._split.id}: the state is of register {at.register}, "
                f"and {self._register.place} is {head.register_id}",
                hint="keep a register with the states that were made with it",
            )
        is_begun = at.unit or at.rows or at.row
        if at.file % self._step != number or (is_begun and self._register.entry(at.file) is None):
            raise InputError(
                f"split {self._split.id}: there is no file {at.file} in it",
                hint="give each split its own state",
            )

    def next(self, timeout: float) -> SplitBatch | None:
        """Give the next piece of the file that is next; None if there is no such file in time."""
        while True:
            entry = self._entry()
            if entry is not None or timeout <= 0 or self._is_closed:
                break
            with self._bell:
                if not self._is_closed:
                    self._bell.wait(min(timeout, _EVERY))
            timeout -= _EVERY
        with self._reading:
            if self._is_closed:
                self._let_go()
                raise ClosedError("the reader is closed", hint="make another one from its state")
            return None if entry is None else self._read(entry)

    def _entry(self) -> FileEntry | None:
        found = self._register.entry(self._at.file)
        if found is None:
            self._register.refresh()
            found = self._register.entry(self._at.file)
        return found

    def is_drained(self) -> bool:
        """Never: a file may come at any time."""
        return False

    def close(self) -> None:
        """Wake whoever waits and let go of the file, as soon as a piece of it is read."""
        with self._bell:
            self._is_closed = True
            self._bell.notify_all()
        with self._reading:
            self._let_go()

    def _read(self, entry: FileEntry) -> SplitBatch:
        """Read a piece; a file without rows gives none and moves the state."""
        try:
            piece = self._piece(entry)
        except SourceError:
            self._let_go()
            if not self._is_passed(entry):
                raise
            piece = None
        except BaseException:
            self._let_go()
            raise
        number, begun = self._at.file, self._at.row
        if piece is None or piece.follows is None:
            self._let_go()
            self._at = FilesState(self._at.register, number + self._step)
        else:
            unit, rows = piece.follows
            done = begun + piece.batch.num_rows
            self._at = FilesState(self._at.register, number, unit, rows, done)
        if piece is None:
            empty = pa.RecordBatch.from_arrays([], names=[])
            return SplitBatch(empty, pa.array([], OFFSETS), self._at.encode())
        return SplitBatch(
            piece.batch, _offsets(number, begun, piece.batch.num_rows), self._at.encode()
        )

    def _is_passed(self, entry: FileEntry) -> bool:
        """Whether a file is gone and to be passed over; a folder without anything passes none."""
        if self._passed is None or self._disk.stat(entry.path) is not None:
            return False
        if not self._disk.list_dir(""):
            return False  # Its file system may not be mounted.
        self._passed.append(entry.path)
        with self._events.telling():
            self._events.warning("source.file_passed", path=entry.path, row_count=self._at.row)
        return True

    def _piece(self, entry: FileEntry) -> Piece | None:
        try:
            if self._pieces is None or self._opened is None:
                self._opened = Opened(self._disk, entry, self._split.id)
                kind = format_of(entry.path, self._wanted.format)
                if kind is None:
                    raise SourceError(f"{entry.path} is of no known format")
                place = Place(self._at.unit, self._at.rows)
                self._pieces = SHAPES[kind](self._opened, place, self._wanted)
            piece = next(self._pieces, None)
            self._opened.check()
        except SourceError as error:
            raise SourceError(
                error.message, split=self._split.id, retryable=error.retryable, hint=error.hint
            ) from error
        except (InputError, DamageError) as error:
            raise self._unreadable(entry, error) from error
        except QuiverError:
            raise
        except ARROW_FAULTS as error:
            if self._opened is not None:
                self._opened.check()
            raise self._unreadable(entry, error) from error
        return piece

    def _unreadable(self, entry: FileEntry, error: Exception) -> SourceError:
        kind = format_of(entry.path, self._wanted.format)
        return SourceError(
            f"{self._disk.locate(entry.path)} cannot be read as {kind}: {error}",
            split=self._split.id,
            hint="mend the file under another name, or give types with schema=",
        )

    def _let_go(self) -> None:
        pieces, self._pieces = self._pieces, None
        opened, self._opened = self._opened, None
        if pieces is not None:
            pieces.close()
        if opened is not None:
            opened.close()


def _split_number(split: Split, count: int) -> int:
    name, _, number = split.id.rpartition("_")
    if name != "files" or not number.isdecimal() or int(number) >= count:
        raise InputError(
            f"{split.id!r} is no split of these files", hint=f"files_0 to files_{count - 1}"
        )
    return int(number)


def _offsets(file: int, first: int, count: int) -> pa.StructArray:
    numbers = pa.array(np.full(count, file, np.int64))
    rows = pa.array(np.arange(first, first + count, dtype=np.int64))
    return pa.StructArray.from_arrays([numbers, rows], fields=list(OFFSETS))
