"""Take bundles, write files, ack: in this order and no other."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from quiver.clock import Clock, SystemClock
from quiver.errors import ClosedError, InputError, QuiverError
from quiver.export.formats import FORMATS, check_schema
from quiver.export.group import Group, Part
from quiver.units import SECOND, parse_bytes, parse_duration

if TYPE_CHECKING:
    from quiver.export.folder import ExportedFile, ExportFolder
    from quiver.subscriber import BundleHandle

__all__ = ["EVERY", "ROWS", "SIZE", "Exporter", "Source", "Tally"]

ROWS: Final = 1_000_000
SIZE: Final = "128MB"
EVERY: Final = "5s"


class Source(Protocol):
    """Where bundles come from: a subscription, in this process or to a store of another one.

    Bundles come by core, segment and index, as far as nothing holds one up.
    """

    def poll(self) -> BundleHandle | None:
        """Claim the next bundle if one is ready."""
        ...

    def next(self, timeout: float | str | None = None) -> BundleHandle | None:
        """Wait for the next bundle; None if the time passes first, or the source is closed."""
        ...

    def close(self) -> None:
        """Give no more bundles and wake whoever waits; those given may still be acked."""
        ...


@dataclass(slots=True)
class Tally:
    """What an exporter has done so far."""

    file_count: int = 0
    row_count: int = 0
    file_bytes: int = 0
    bundle_count: int = 0
    repeated_count: int = 0
    """Of the bundles, those whose rows were in files before they came."""


class Exporter:
    """Writes slots of all bundles of a source into files and acks them; for one thread.

    A file ends before the bundle with which it would have more than ``rows`` rows or ``size`` bytes
    of Arrow data, at a change of the schema, and where the next bundle does not follow the one
    before. All slots of a group of bundles are written before any of it is acked.
    """

    def __init__(
        self,
        source: Source,
        folder: ExportFolder,
        *,
        slots: Sequence[str],
        to: str = FORMATS[0],
        rows: int = ROWS,
        size: int | str = SIZE,
        clock: Clock | None = None,
        watch: Callable[[ExportedFile], object] | None = None,
    ) -> None:
        """Take a source over; ``watch`` is told of each file once its bundles are acked."""
        if to not in FORMATS:
            raise InputError(f"to: {to!r} is no format", hint=f"formats: {', '.join(FORMATS)}")
        self.tally = Tally()
        self._source = source
        self._folder = folder
        self._slots = frozenset(slots)
        self._format = to
        self._rows_max = rows
        self._bytes_max = parse_bytes(size)
        self._clock = clock or SystemClock()
        self._watch = watch
        self._group: Group | None = None
        self._held: list[BundleHandle] = []
        self._stopping = False

    def run(self, *, follow: bool = False, every: float | str = EVERY) -> Tally:
        """Export what there is, or with ``follow`` all that comes until ``stop``.

        Then a file is written at the latest ``every`` after its first bundle came. What was claimed
        and not acked, because something failed, is given back.
        """
        every_ns = parse_duration(every, key="every")
        try:
            while not self._stopping:
                rest = self._rest_ns(every_ns) if follow else 0
                is_due = follow and rest is not None and rest <= 0
                wait = None if rest is None else rest / SECOND
                handle = None if is_due else self._next(wait)
                if handle is not None:
                    self._held.append(handle)
                    self._take(handle)
                elif self._group is None:
                    break  # Nothing is there, or nothing will ever come.
                else:
                    self._finish()
            self._finish()
        finally:
            self._give_back()
        return self.tally

    def stop(self) -> None:
        """Let ``run`` write what it has and return; from any thread, also out of a signal."""
        self._stopping = True
        # In a thread of its own: a signal may come while this one holds what a close waits for.
        threading.Thread(target=self._source.close, daemon=True).start()

    def _next(self, wait: float | None) -> BundleHandle | None:
        try:
            return self._source.next(wait)
        except ClosedError:
            if not self._stopping:
                raise
            return None  # It was closed in the middle of a look.

    def _rest_ns(self, every_ns: int) -> int | None:
        """How long the next bundle may take; None without end."""
        if self._group is None:
            return None
        return self._group.begun_ns + every_ns - self._clock.monotonic_ns()

    def _take(self, handle: BundleHandle) -> None:
        place = handle.segment_seq, handle.bundle_index
        missing = {s for s in self._slots if not self._folder.has(s, handle.core, place)}
        part = Part.of(handle, frozenset(missing))
        if self._group is not None and not self._group.takes(part):
            self._finish(but=handle)
        known = self._group.batches if self._group is not None else {}
        try:
            for slot, batch in part.rows.items():
                if slot not in known:
                    check_schema(self._format, batch.schema)
        except InputError:
            self._finish(but=handle)  # What came before it is no worse for it.
            raise
        if self._group is not None:
            self._group.add(part)
            return
        self._group = Group.begin(
            part,
            self._format,
            rows_max=self._rows_max,
            bytes_max=self._bytes_max,
            now_ns=self._clock.monotonic_ns(),
        )

    def _finish(self, but: BundleHandle | None = None) -> None:
        """Write the group and ack its bundles; ``but`` came behind them."""
        group, self._group = self._group, None
        if group is None:
            return
        files = [
            self._folder.write(
                group.range_of(slot), self._format, batches, bundle_count=len(group.parts)
            )
            for slot, batches in sorted(group.batches.items())
        ]
        self._folder.settle(files)
        for part in group.parts:
            part.handle.ack()
            self.tally.bundle_count += 1
            self.tally.repeated_count += not part.slots
        self._held = [] if but is None else [but]
        for file in files:
            self.tally.file_count += 1
            self.tally.row_count += file.row_count
            self.tally.file_bytes += file.file_bytes
            if self._watch is not None:
                self._watch(file)

    def _give_back(self) -> None:
        held, self._held, self._group = self._held, [], None
        for handle in held:
            if not handle.resolved:
                with contextlib.suppress(QuiverError):  # Of a store that is closed by now.
                    handle.defer()
