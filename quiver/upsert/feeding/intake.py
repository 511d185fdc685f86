"""Bundles of a subscriber in the order of their core, cut into epochs.

::

    bundle                                          what becomes of it
    below the offset of its core                    acked: its rows are in already
    an earlier one of the core waits (a nack)       given back: rows never overtake others
    behind a segment that cannot be opened          DamageError, unless that is allowed
    where one was acked, and is not in              SourceError likewise
    else                                            in an epoch, acked once that is appended
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Protocol

import pyarrow as pa

from quiver.engine.start import Position
from quiver.errors import ClosedError, DamageError, InputError, QuiverError, SourceError
from quiver.subscriber import BundleRun
from quiver.upsert.feeding.options import FeedOptions

__all__ = ["Gathered", "Intake", "Part", "Subscriber"]

_RUN: Final = 1000
"""Bundles that are claimed at a time."""
_PARTS_MAX: Final = 1 << 14
"""Of an epoch, however few rows they have: each is held until it is acked."""


class Subscriber(Protocol):
    """Where bundles come from: ``store.subscribe`` or ``quiver.subscribe``."""

    @property
    def store_id(self) -> str:
        """The id of the store."""
        ...

    @property
    def closed(self) -> bool:
        """Whether nothing more will come."""
        ...

    def poll_run(self, limit: int = ...) -> BundleRun | None:
        """Claim bundles in a row, if any are ready."""
        ...

    def next_run(self, limit: int = ..., *, timeout: float | str | None = None) -> BundleRun | None:
        """Wait for them."""
        ...

    def waiting_between(self, core: int, first: Position, stop: Position) -> Position | None:
        """Find the first bundle in between that has no outcome yet."""
        ...

    def unreadable_between(self, core: int, first: int, stop: int) -> DamageError | None:
        """Say why a segment in between cannot be opened."""
        ...

    def acked_behind(
        self, places: Mapping[int, Position], slot: str
    ) -> tuple[int, Position] | None:
        """Find a bundle that has an outcome, and rows, not before the place of its core."""
        ...

    def next_segment(self, core: int) -> int | None:
        """Say which number the next segment of a core has at least."""
        ...


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of some bundles of a core in a row."""

    core: int
    stop: Position
    """The bundle behind them."""
    rows: pa.Table
    bundle_count: int
    run: BundleRun | None
    """To be acked with it: it is the last part of that."""


@dataclass(slots=True)
class Gathered:
    """What is to be one epoch."""

    parts: list[Part] = field(default_factory=list)
    begun_ns: int = 0
    row_count: int = 0
    byte_count: int = 0

    def add(self, part: Part) -> None:
        """Take rows in, behind those that are there."""
        self.parts.append(part)
        self.row_count += part.rows.num_rows
        self.byte_count += part.rows.nbytes

    def positions(self) -> dict[int, Position]:
        """Give the next bundle of each core that has any here."""
        return {part.core: part.stop for part in self.parts}


class Intake:
    """Takes from one subscriber, for one thread."""

    def __init__(
        self,
        subscriber: Subscriber,
        options: FeedOptions,
        *,
        told: Callable[[DamageError], object],
    ) -> None:
        """``told`` hears of segments that are passed by."""
        self._subscriber, self._options, self._told = subscriber, options, told
        self._ahead: deque[Part] = deque()
        self._held: list[BundleRun] = []
        self._ends: dict[int, Position] = {}
        self.offsets: dict[int, Position] = {}
        self.repeated_count = 0
        self.is_held_up = False
        """Whether the last look found bundles that must wait for others."""

    def begin(self, offsets: Mapping[int, Position]) -> None:
        """Begin anew behind what is in the collection; gives back all that is in hands.

        Raises SourceError if the collection has more of the store than there ever was, or less
        than was acked.
        """
        self.give_back()
        for core, place in offsets.items():
            known = self._subscriber.next_segment(core)
            if known is not None and place.segment_seq >= known:
                raise SourceError(
                    f"the collection has core {core} up to segment {place.segment_seq:,}, and the "
                    f"store comes to {known:,} next: it went back",
                    split=f"core_{core}",
                    hint="a store that was put back from a copy needs a collection of its own",
                )
        if not self._options.pass_acked:
            self._check_acked(offsets)
        self.offsets = dict(offsets)

    def _check_acked(self, offsets: Mapping[int, Position]) -> None:
        """Raise SourceError for a bundle that would never come, nor is in."""
        acked = self._subscriber.acked_behind(offsets, self._options.slot)
        if acked is not None:
            core, place = acked
            raise SourceError(
                f"bundle {place.bundle_index:,} of segment {place.segment_seq:,} was acked, and is "
                "not in the collection, which went back, or is another one",
                split=f"core_{core}",
                hint="reset the subscriber, or name another: it is given all that is left; "
                "acked=skip begins behind it",
            )

    @property
    def is_over(self) -> bool:
        """Whether the subscriber was closed."""
        return self._subscriber.closed

    def fits(self, gathered: Gathered) -> bool:
        """Whether what is ahead may join an epoch, or has to be looked for."""
        if len(gathered.parts) >= _PARTS_MAX:
            return False
        if not self._ahead:
            return gathered.row_count < self._options.rows and (
                gathered.byte_count < self._options.limits[0]
            )
        rows = self._ahead[0].rows
        return not gathered.parts or (
            gathered.row_count + rows.num_rows <= self._options.rows
            and gathered.byte_count + rows.nbytes <= self._options.limits[0]
        )

    def take(self, gathered: Gathered, timeout: float | None) -> Part | None:
        """Give the next part, waiting that long for one, if it may join an epoch.

        Without a timeout this does not wait.
        """
        if not self._ahead:
            self._look(timeout)
        return self._ahead.popleft() if self._ahead and self.fits(gathered) else None

    def _look(self, timeout: float | None) -> None:
        """Claim runs until one brings something new, or none is there."""
        blocked: set[int] = set()
        while True:
            run = self._claim(None if blocked else timeout)
            if run is None:
                self.is_held_up = bool(blocked)
                return
            self._held.append(run)
            if not self._is_next(run):
                self._let_go(run)
                if run.core in blocked:
                    self.is_held_up = True
                    return
                blocked.add(run.core)
                continue
            self._cut(run)
            if self._ahead:
                self.is_held_up = False
                return
            timeout = None

    def _claim(self, timeout: float | None) -> BundleRun | None:
        if timeout is None:
            return self._subscriber.poll_run(_RUN)
        return self._subscriber.next_run(_RUN, timeout=timeout)

    def _is_next(self, run: BundleRun) -> bool:
        """Whether no bundle of the core has to come before."""
        core, begin = run.core, Position(run.segment_seq, run.bundle_first)
        end = self._ends.get(core)
        if self._subscriber.waiting_between(core, end or Position(), begin) is not None:
            return False
        known = end or self.offsets.get(core)
        first = 0 if known is None else known.segment_seq + 1
        if begin.segment_seq > first:
            error = self._subscriber.unreadable_between(core, first, begin.segment_seq)
            if error is not None and not self._options.pass_damaged:
                error.hint = error.hint or "quiver repair makes it sound, as far as it can be"
                raise error
            if error is not None:
                self._told(error)
        return True

    def _cut(self, run: BundleRun) -> None:
        """Make parts of a run, of whole bundles; of those that are new."""
        begin = Position(run.segment_seq, run.bundle_first)
        stop = Position(run.segment_seq, run.bundle_first + len(run))
        done = self.offsets.get(run.core, Position())
        if stop <= done:
            self.repeated_count += len(run)
            run.ack()
            self._held.remove(run)
            return
        self._ends[run.core] = stop
        parts = self._whole(run, stop) if begin >= done else []
        if not parts:
            parts = list(self._each(run, done))
        self._ahead.extend(parts)

    def _whole(self, run: BundleRun, stop: Position) -> list[Part]:
        """Make one part of all of it, if it is small enough and of one schema."""
        try:
            rows = run.table(self._options.slot)
        except InputError:
            return []  # Each bundle has a schema of its own.
        is_large = rows.num_rows > self._options.rows or rows.nbytes > self._options.limits[0]
        if is_large and len(run) > 1:
            return []
        return [Part(run.core, stop, rows, len(run), run)]

    def _each(self, run: BundleRun, done: Position) -> list[Part]:
        """Make a part of each bundle that is new."""
        parts = []
        for index, bundle in enumerate(run, run.bundle_first):
            place = Position(run.segment_seq, index)
            if place < done:
                self.repeated_count += 1
                continue
            batch = bundle.get(self._options.slot)
            rows = pa.table({}) if batch is None else pa.Table.from_batches([batch])
            is_last = index + 1 == run.bundle_first + len(run)
            behind = Position(run.segment_seq, index + 1)
            parts.append(Part(run.core, behind, rows, 1, run if is_last else None))
        return parts

    def ack(self, gathered: Gathered) -> None:
        """Say that an epoch is appended."""
        self.offsets.update(gathered.positions())
        for part in gathered.parts:
            if part.run is not None:
                with suppress(ClosedError):  # Its place is in: it comes again, and is left out.
                    part.run.ack()
                self._held.remove(part.run)
                if self._ends.get(part.core) == part.stop:
                    del self._ends[part.core]

    def give_back(self) -> None:
        """Give back all that is in hands; it comes again."""
        held, self._held = self._held, []
        self._ahead.clear()
        self._ends.clear()
        for run in held:
            if not run.resolved:
                with suppress(QuiverError):  # Of a store that is closed by now.
                    run.defer()

    def _let_go(self, run: BundleRun) -> None:
        self._held.remove(run)
        with suppress(ClosedError):
            run.defer()
