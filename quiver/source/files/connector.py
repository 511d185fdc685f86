"""The connector ``files``: its options, and what it makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from quiver.clock import Clock, SystemClock
from quiver.disk import Disk
from quiver.errors import ConfigError, InputError
from quiver.events import Events
from quiver.source.files.finding import Finder
from quiver.source.files.pieces import Wanted
from quiver.source.files.reader import FilesReader
from quiver.source.files.register import Register
from quiver.source.files.shapes import SHAPES
from quiver.source.format import SPLITS_MAX
from quiver.source.protocols import Split, States
from quiver.units import parse_duration

__all__ = ["FilesConnector", "FilesOptions"]

_BATCH_ROWS: Final = 1 << 16
_BLOCK_BYTES: Final = 4 << 20
_TOLD_MAX: Final = 1000
_VANISHED: Final = ("error", "pass")


@dataclass(frozen=True, slots=True)
class FilesOptions:
    """How files are found and read.

    ``splits`` is how many are read at once, and for life. ``format`` is for all files, whatever
    their names; without it a file is known by its suffix and others are passed over. ``schema``
    gives types to columns of CSV and NDJSON, which else come from what is in them. ``settle`` is
    how long a file without a footer has to stay as it is. ``vanished`` says what becomes of a file
    that went before it was read to its end: ``"error"``, or ``"pass"``, told in the log, for
    folders that somebody tidies up; an empty folder passes none over, since that is what one looks
    like whose file system is not mounted.
    """

    splits: int = 4
    pattern: str = "*"
    format: str | None = None
    settle: float | str = "1s"
    schema: pa.Schema | None = None
    nulls: tuple[str, ...] = ("",)
    separator: str | None = None
    batch_rows: int = _BATCH_ROWS
    block_bytes: int = _BLOCK_BYTES
    vanished: str = "error"

    def __post_init__(self) -> None:
        """Check them; raises ConfigError that names the option."""
        if not 1 <= self.splits <= SPLITS_MAX:
            raise ConfigError(f"splits: {self.splits} is not in 1 to {SPLITS_MAX}")
        if self.format is not None and self.format not in SHAPES:
            raise ConfigError(f"format: {self.format!r} is unknown", hint=", ".join(SHAPES))
        if self.batch_rows < 1 or self.block_bytes < 1:
            raise ConfigError("batch_rows and block_bytes: at least 1")
        if self.vanished not in _VANISHED:
            hint = " or ".join(_VANISHED)
            raise ConfigError(f"vanished: {self.vanished!r} is unknown", hint=hint)
        if self.separator is not None and len(self.separator.encode()) != 1:
            raise ConfigError(f"separator: {self.separator!r} is not one ASCII character")


class FilesConnector:
    """The files below a folder. Their register is in another one, which has to outlive the states.

    Nothing is written into ``folder``, and nothing is deleted there: what is read stays. A file
    counts from when it is whole, under the number that it got then; one that changes afterwards,
    or goes before it was read, is an error, the latter unless ``vanished`` says otherwise.
    """

    name = "files"
    drops_splits = False

    def __init__(
        self,
        folder: Disk,
        register: Disk,
        *,
        options: FilesOptions | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Look at nothing yet."""
        self._folder = folder
        self._options = options or FilesOptions()
        self._clock = clock or SystemClock()
        self.register = Register(register)
        self._enumerator: FilesEnumerator | None = None
        self.passed: list[str] = []
        """Files that were passed over, for they were gone before they were read to their end."""

    @property
    def waiting(self) -> list[str]:
        """Files that were not whole when an enumerator looked last."""
        return [] if self._enumerator is None else self._enumerator.waiting

    def enumerator(self) -> FilesEnumerator:
        """Take the register, to extend it: one enumerator at a time does, in all processes."""
        made = FilesEnumerator(self._folder, self.register, self._options, clock=self._clock)
        self._enumerator = made
        return made

    def reader(self, split: Split, state: str | None, columns: Sequence[str] | None) -> FilesReader:
        """Restore a reader; it needs a register, and nobody who extends it."""
        options = self._options
        names = None if columns is None else tuple(columns)
        if names is not None and len(set(names)) < len(names):
            raise InputError(f"a column is wanted twice: {', '.join(names)}")
        wanted = Wanted(
            names,
            options.format or split.properties.get("format") or None,
            options.batch_rows,
            options.block_bytes,
            options.schema,
            options.nulls,
            options.separator or "",
        )
        passed = self.passed if options.vanished == "pass" else None
        return FilesReader(
            self._folder, self.register, split=split, state=state, wanted=wanted, passed=passed
        )

    def acknowledge(self, states: States) -> None:
        """Do nothing: files stay where they are."""


class FilesEnumerator:
    """Finds files and registers them; the splits are always the same."""

    def __init__(
        self, folder: Disk, register: Register, options: FilesOptions, *, clock: Clock
    ) -> None:
        self._register = register
        self._folder = folder
        self._options = options
        self._clock = clock
        self._events = Events(source="files", folder=folder.locate(""))
        self._finder = Finder(
            folder,
            clock=clock,
            pattern=options.pattern,
            given_format=options.format,
            settle_ns=parse_duration(options.settle),
        )
        register.open_to_extend(options.splits, clock)

    @property
    def waiting(self) -> list[str]:
        """Files that were not whole at the last look."""
        return self._finder.waiting

    def list_splits(self) -> list[Split]:
        """Look through the folders; when this returns, what is new may be read."""
        with self._events.telling():
            self._register.open_to_extend(self._options.splits, self._clock)
            found = self._finder.look(self._register.known())
            for path in sorted(self._finder.changed)[:_TOLD_MAX]:
                if self._events.is_first(path):
                    self._events.warning("source.file_changed", path=path)
            if found:
                self._register.extend(found)
            properties = {
                "folder": self._folder.locate(""),
                "format": self._options.format or "",
                "register": self._register.place,
            }
            return [Split(f"files_{n}", properties) for n in range(self._options.splits)]

    def close(self) -> None:
        """Let another enumerator extend the register."""
        self._register.close()
