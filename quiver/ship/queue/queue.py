"""A queue in object storage: many append, one consumer takes from it in order, no broker."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from quiver.clock import Clock, SystemClock
from quiver.disk import Bytes
from quiver.errors import CapacityError, FencedError, InputError, QuiverError
from quiver.ship.batch import Entropy, mint_name
from quiver.ship.objects import Bucket
from quiver.ship.queue.changing import Changer, Counters, State
from quiver.ship.queue.format import SEQUENCE_MAX, next_epoch
from quiver.ship.queue.manifest import CutPage, Manifest, NewEntry
from quiver.ship.queue.marks import which_are_new
from quiver.ship.queue.pace import Pace
from quiver.ship.queue.pages import PageCache
from quiver.ship.queue.reading import QueueView
from quiver.ship.queue.table import PAGE
from quiver.ship.queue.turns import Turns
from quiver.units import SECOND

__all__ = ["Queue", "QueueOptions", "Started"]

_DOUBTS_MAX: Final = 1000
_STEPS: Final = 8
"""Beyond the limit of entries in line each of so many parts of it brings another try to page."""
_KEEP: Final = 4
"""A page leaves one part in so many of the limit in line."""
_LATE_NS: Final = 300 * SECOND
"""How old a page may be when it is named: less than any sweeper waits."""


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """What a queue may be told; the defaults are for most."""

    entries_max: int | None = None
    """Appends raise CapacityError while more entries than this would wait; None: no limit."""
    bytes_max: int | None = None
    """Likewise for the bytes of batches, as far as entries say how large these are."""
    page_entries: int = 1024
    """From how many entries in line on the oldest go into pages, which the reference cannot read.

    0: never.
    """
    page_bytes: int = 128 * 1024
    """Likewise for the bytes of entries in line."""
    retry_seconds: float = 60.0
    """How long a change is tried before it raises RemoteError."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        limits = {"entries_max": self.entries_max, "bytes_max": self.bytes_max}
        for name, value in limits.items():
            if value is not None and value < 1:
                raise InputError(f"{name} {value} is below 1")
        if self.page_entries < 0 or 0 < self.page_entries < _STEPS or self.page_bytes < _STEPS:
            raise InputError(f"pages need limits of {_STEPS} or more; page_entries 0 has none")
        if self.retry_seconds < 0:
            raise InputError(f"retry_seconds {self.retry_seconds} is below 0")


class Started(NamedTuple):
    """A consumer has taken over."""

    epoch: int
    next_sequence: int
    removed: int
    """Entries that were dequeued because the consumer has had them."""


class Queue:
    """One queue at one place of a store. Safe for many threads, which then take turns.

    Nothing is held open: a queue that is left alone needs no close.
    """

    def __init__(
        self,
        bucket: Bucket,
        *,
        options: QueueOptions | None = None,
        clock: Clock | None = None,
        entropy: Entropy = secrets.token_bytes,
    ) -> None:
        """Use the objects of ``bucket``; nothing is read yet."""
        self.bucket = bucket
        self.options = options or QueueOptions()
        self._clock = clock or SystemClock()
        self._entropy = entropy
        self._changer = Changer(
            bucket,
            self._clock,
            pace=Pace(self._clock, entropy),
            turns=Turns(bucket, entropy),
            seconds=self.options.retry_seconds,
        )
        self._pages = PageCache(self._fetch_page, place=bucket.place)
        self._lock = threading.RLock()
        self._doubts: OrderedDict[str, int] = OrderedDict()
        self._sized: tuple[Manifest, int] | None = None

    @property
    def place(self) -> str:
        """Its address as messages show it, without credentials."""
        return self.bucket.place

    @property
    def counters(self) -> Counters:
        """What was done to the manifest since the queue was opened."""
        return self._changer.counters

    def append(self, *new: NewEntry) -> list[int | None]:
        """Add entries in one change, all or none, and give their sequence numbers.

        An entry whose spans the queue has had already gets None: it is left out. If an earlier
        try was in after all, its numbers are given, and nothing is added twice. Raises
        CapacityError, InputError, RemoteError, and UnclearError if nobody knows whether it is
        in: the same locations may then be appended again.
        """
        if not new or len({entry.location for entry in new}) < len(new):
            raise InputError("an append needs entries, each with a location of its own")
        with self._lock:
            return self._append(new)

    def start(self, last_acked: int | None = None) -> Started:
        """Take over as the consumer: a new epoch, in the same change without what was acked.

        Raises InputError if ``last_acked`` is no number of this queue, RemoteError.
        """
        removed = 0

        def make(manifest: Manifest, _: bool) -> Manifest:  # noqa: FBT001
            nonlocal removed
            if last_acked is not None:
                manifest, removed = manifest.dequeued(last_acked)
            return manifest.with_epoch(next_epoch(manifest.footer.epoch))

        with self._lock:
            footer = self._changer.change(make, "start a consumer of").manifest.footer
        return Started(footer.epoch, footer.next_sequence, removed)

    def read(self, *, epoch: int | None = None) -> QueueView:
        """See what is in the queue; little is transferred if it is as it was.

        With ``epoch`` raises FencedError if that is not the newest consumer's.
        """
        with self._lock:
            state = self._changer.read()
            self._check(state.manifest, epoch)
            return self._view(state.manifest)

    def dequeue(self, through: int, *, epoch: int) -> int:
        """Remove entries up to this number, and say how many; nothing is written if none is.

        Raises FencedError, InputError for a number that the queue never gave, RemoteError.
        """
        removed = 0

        def make(manifest: Manifest, _: bool) -> Manifest | None:  # noqa: FBT001
            nonlocal removed
            self._check(manifest, epoch)
            changed, count = manifest.dequeued(through)
            removed = count or removed
            return None if changed is manifest else changed

        with self._lock:
            self._changer.change(make, "dequeue from")
        return removed

    def _append(self, new: Sequence[NewEntry]) -> list[int | None]:
        names = [entry.location for entry in new]
        doubted = [self._doubts[name] for name in names if name in self._doubts]
        if doubted:
            self._changer.forget()
        since = min(doubted, default=SEQUENCE_MAX)
        numbers: dict[str, int] = {}
        before: Manifest | None = None

        def make(manifest: Manifest, was_sent: bool) -> Manifest | None:  # noqa: FBT001
            nonlocal since, before
            numbers.clear()
            if was_sent or doubted:
                numbers.update(self._find(manifest, names, since=since))
            rest = [entry for entry in new if entry.location not in numbers]
            is_new = which_are_new(manifest.marks, rest)
            wanted = [entry for entry, found in zip(rest, is_new, strict=True) if found]
            if not wanted:
                return None
            self._check_room(manifest, wanted)
            before, first = manifest, manifest.footer.next_sequence
            since = min(since, first)
            numbers.update((entry.location, first + place) for place, entry in enumerate(wanted))
            return manifest.appended(wanted)

        try:
            state = self._changer.change(make, "append to")
            if before is not None:
                self._tend(before, state)
        except BaseException:
            self._doubt(names, since)
            raise
        for name in names:
            self._doubts.pop(name, None)
        return [numbers.get(name) for name in names]

    def _find(self, manifest: Manifest, names: Sequence[str], *, since: int) -> dict[str, int]:
        """Look for entries of our own, and their numbers, among those from ``since`` on."""
        found = self._view(manifest).entries(since - 1, kept=True)
        return {entry.location: entry.sequence for entry in found if entry.location in names}

    def _doubt(self, names: Sequence[str], since: int) -> None:
        """Keep in mind that these may be in, for when they are appended again."""
        for name in names:
            self._doubts.setdefault(name, since)
        while len(self._doubts) > _DOUBTS_MAX:
            self._doubts.popitem(last=False)

    def _check(self, manifest: Manifest, epoch: int | None) -> None:
        current = manifest.footer.epoch
        if epoch is not None and epoch != current:
            raise FencedError(
                f"another consumer has taken over {self.place}: its epoch is {current}, "
                f"this one's {epoch}",
                epoch=epoch,
                current=current,
                hint="one consumer at a time; the newest one goes on",
            )

    def _check_room(self, manifest: Manifest, entries: Sequence[NewEntry]) -> None:
        options = self.options
        count = manifest.count + len(entries)
        if options.entries_max is not None and count > options.entries_max:
            raise self._full(f"{count:,} entries would wait, the most is {options.entries_max:,}")
        if options.bytes_max is not None:
            more = sum(entry.batch.byte_count for entry in entries if entry.batch)
            size = self._batch_bytes(manifest) + more
            if size > options.bytes_max:
                text = f"{size:,} bytes would wait, the most is {options.bytes_max:,}"
                raise self._full(text)

    def _batch_bytes(self, manifest: Manifest) -> int:
        if self._sized is None or self._sized[0] is not manifest:
            self._sized = manifest, manifest.batch_bytes()
        return self._sized[1]

    def _full(self, text: str) -> CapacityError:
        hint = "the consumer is behind, or there is none"
        return CapacityError(f"{self.place} is full: {text}", hint=hint)

    def _tend(self, before: Manifest, state: State) -> None:
        """Move the oldest entries into a page, if this append is the one that is to do it.

        That is one in many, so that appenders do not do it all at once. The append is in already,
        so what fails here is counted and left to a later one.
        """
        if self._steps(state.manifest) <= self._steps(before):
            return
        options = self.options
        try:
            name = mint_name(self._clock.wall_ns(), self._entropy, ending=PAGE)
            cut = state.manifest.cut_page(
                name, entries=options.page_entries // _KEEP, area_bytes=options.page_bytes // _KEEP
            )
            if cut is None:
                return
            state = self._put_page(cut)
            self.counters.pages += cut.ref in state.manifest.table.pages
        except QuiverError:
            self.counters.page_failures += 1

    def _put_page(self, cut: CutPage) -> State:
        """Put a page and name it, unless so much time has passed that a sweeper may have it.

        If that was seen too late, for one of the clocks stands while a machine sleeps, it is put
        once more: named or not, no sweeper takes what is that young.
        """
        begun = self._now()

        def make(manifest: Manifest, was_sent: bool) -> Manifest | None:  # noqa: FBT001
            if self._is_late(begun) or (was_sent and cut.ref in manifest.table.pages):
                return None
            return manifest.paged(cut)

        self.bucket.write(cut.ref.name, cut.data)
        try:
            return self._changer.change(make, "page")
        finally:
            if self._is_late(begun):
                self._changer.patiently(
                    lambda: self.bucket.write(cut.ref.name, cut.data), "put a page of"
                )

    def _now(self) -> tuple[int, int]:
        return self._clock.monotonic_ns(), self._clock.wall_ns()

    def _is_late(self, begun: tuple[int, int]) -> bool:
        return max(now - then for now, then in zip(self._now(), begun, strict=True)) > _LATE_NS

    def _steps(self, manifest: Manifest) -> int:
        """Count by how many parts what is in line is beyond its limits."""
        options = self.options
        if not options.page_entries:
            return 0
        beyond = [
            (manifest.footer.entry_count, options.page_entries),
            (len(manifest.area), options.page_bytes),
        ]
        return max(1 + (n - most) * _STEPS // most if n >= most else 0 for n, most in beyond)

    def _view(self, manifest: Manifest) -> QueueView:
        return QueueView(manifest, self._pages, place=self._changer.place)

    def _fetch_page(self, name: str) -> Bytes:
        return self._changer.patiently(lambda: self.bucket.read(name), "read a page of")
