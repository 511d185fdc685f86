"""One round of the sweeper: look, judge, delete; or look and judge alone.

The order matters: objects are listed first and the manifest is read behind that, and again before
each request that deletes, so that what was appended meanwhile is seen.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from itertools import islice
from typing import Final

from quiver.clock import Clock
from quiver.errors import (
    ConfigError,
    DamagedEntry,
    DamageError,
    FencedError,
    MissingError,
    VersionError,
)
from quiver.metrics import Metrics
from quiver.ship.objects import own_key
from quiver.ship.queue import Queue, QueueView
from quiver.ship.queue.table import decode_page
from quiver.ship.sweeper.rules import (
    GRACE_MIN,
    Candidate,
    Times,
    candidates,
    doomed,
    oldest_of,
)
from quiver.units import MILLISECOND, format_duration, parse_duration

__all__ = ["MARKER", "Sweeper", "Swept"]

MARKER: Final = "sweeper"
"""An object that each round puts, to learn what time it is by the clock of the store."""

_DELETED_AT_ONCE: Final = 1000
"""As many as S3 takes in one request."""


@dataclass(frozen=True, slots=True)
class Swept:
    """What a round did; without deletion, what it would do."""

    looked_count: int
    """Batches and pages that are there and old enough."""
    named_count: int
    """Batches and pages that the queue names, or that somebody may be about to name."""
    deleted_count: int
    deleted_bytes: int
    failed_count: int
    """Objects that could not be deleted; the next round tries again."""
    keys: tuple[str, ...]
    """Of the first thousand that were deleted, or would be."""


class Sweeper:
    """Deletes what nobody points to, for one queue. One round at a time."""

    def __init__(
        self,
        queue: Queue,
        *,
        grace_ns: int,
        clock: Clock,
        metrics: Metrics | None = None,
        epoch: int | None = None,
    ) -> None:
        """With an ``epoch`` it ends as soon as that is not the queue's any more.

        Raises ConfigError for a grace in which a producer may still append.
        """
        if grace_ns < parse_duration(GRACE_MIN):
            raise ConfigError(
                f"the grace is {format_duration(grace_ns)}, the least is {GRACE_MIN}",
                hint="what a producer is about to append would be deleted",
            )
        self._queue, self._bucket = queue, queue.bucket
        self._grace_ms = grace_ns // MILLISECOND
        self.epoch = epoch
        self._clock, self._metrics = clock, metrics
        self._stopped = threading.Event()
        self._over: set[str] = set()
        """Pages that nobody names and nobody ever will."""
        self._known: tuple[object, set[str], int | None] | None = None

    @property
    def place(self) -> str:
        """The address of the queue as messages show it."""
        return self._queue.place

    def stop(self) -> None:
        """Let a round that is on its way end before its next request."""
        self._stopped.set()

    def sweep(self, *, dry_run: bool = False) -> Swept:
        """Do a round. Raises MissingError without a manifest, FencedError, RemoteError.

        A dry run changes nothing, so it has no time of the store but that of its newest object or
        the local one, whichever is later.
        """
        begun_ns = self._clock.monotonic_ns()
        self._look()
        self._known = None
        self._over.clear()
        found = self._candidates(is_dry=dry_run)
        named, oldest_ms = self._named(found)
        going = doomed(found.values(), named, oldest_ms)
        deleted, failed_count = (going, 0) if dry_run else self._delete(going, found)
        swept = Swept(
            looked_count=len(found),
            named_count=len(named),
            deleted_count=len(deleted),
            deleted_bytes=sum(each.size for each in deleted),
            failed_count=failed_count,
            keys=tuple(each.key for each in deleted[:_DELETED_AT_ONCE]),
        )
        if not dry_run:
            self._count(swept, self._clock.monotonic_ns() - begun_ns)
        return swept

    def _delete(
        self, going: list[Candidate], found: dict[str, Candidate]
    ) -> tuple[list[Candidate], int]:
        """Delete some at a time; each time what was named meanwhile stays."""
        deleted: list[Candidate] = []
        failed_count = 0
        rest = iter(going)
        while (chunk := list(islice(rest, _DELETED_AT_ONCE))) and not self._stopped.is_set():
            left = doomed(chunk, *self._named(found))
            failed = set(self._bucket.delete([each.key for each in left])) if left else set()
            deleted += [each for each in left if each.key not in failed]
            failed_count += len(failed)
        return deleted, failed_count

    def _look(self) -> QueueView:
        """Read the manifest; raises MissingError where there never was one, FencedError."""
        view = self._queue.read()
        if self.epoch is not None and view.epoch != self.epoch:
            raise FencedError(
                f"{view.place} has another consumer",
                epoch=self.epoch,
                current=view.epoch,
                hint="its sweeper does this now",
            )
        if not (view.epoch or view.next_sequence):
            raise MissingError(
                f"there is no queue at {view.place}",
                path=view.place,
                hint="is the address right? without its manifest nobody knows what may be deleted",
            )
        return view

    def _named(self, found: dict[str, Candidate]) -> tuple[set[str], int | None]:
        """Give all keys that the manifest names now, and when the oldest waiting batch was born."""
        view = self._look()
        if self._known is not None and self._known[0] is view.manifest:
            return self._known[1:]
        named, waiting = {page.name for page in view.pages}, []
        for entry in view.entries(kept=True):
            key = own_key(self._bucket, entry.location)
            named.add(key)
            if not entry.is_acked:
                waiting.append(key)
        pages = [each.key for each in found.values() if each.is_page and each.key not in named]
        named.update(key for key in pages if self._may_be_named(key, view))
        oldest_ms = oldest_of(found, waiting)
        self._known = view.manifest, named, oldest_ms
        return named, oldest_ms

    def _may_be_named(self, key: str, view: QueueView) -> bool:
        """Whether whoever put a page may still name it: its entries are the oldest in line.

        He may be asleep in that very request. What is not in front of the line never is again.
        """
        if key in self._over:
            return False
        try:
            area = decode_page(memoryview(self._bucket.read(key))).area
        except VersionError:
            return True
        except (DamageError, MissingError):
            area = memoryview(b"")
        if area and view.manifest.area[: len(area)] == area:
            return True
        self._over.add(key)
        return False

    def _candidates(self, *, is_dry: bool) -> dict[str, Candidate]:
        local_ms = self._clock.wall_ns() // MILLISECOND
        if is_dry:
            listed = list(self._bucket.list(""))
            store_ms = max((each.changed_ms for each in listed), default=local_ms)
            return candidates(listed, self._times(max(store_ms, local_ms), local_ms))
        self._bucket.write(MARKER, b"what the time was in this store\n")
        marks = [each.changed_ms for each in self._bucket.list(MARKER) if each.key == MARKER]
        if not marks:
            raise DamagedEntry("the store does not list what was put", path=self._bucket.place)
        return candidates(self._bucket.list(""), self._times(marks[0], local_ms))

    def _times(self, store_ms: int, local_ms: int) -> Times:
        return Times(store_ms=store_ms, local_ms=local_ms, grace_ms=self._grace_ms)

    def _count(self, swept: Swept, took_ns: int) -> None:
        if self._metrics is not None:
            self._metrics.observe("quiver.ship.sweep", took_ns)
            self._metrics.add("quiver.ship.swept_objects", swept.deleted_count)
            self._metrics.add("quiver.ship.swept_bytes", swept.deleted_bytes)
            self._metrics.add("quiver.ship.sweep_failures", swept.failed_count)
