"""``Feeder``: a subscriber of a store at one end, a collection at the other.

::

    1  bundles are claimed, in the order of each core      a crash before the next step leaves
    2  those that are in already are acked                 them open; they come again
    3  the rest become differences, in files               files that nobody names
    4  appended, with the place of each core: one          bundles that are open and in: the
       change of the manifest                              places say so, and they are acked
    5  acked                                               nothing
    6  the collection is tended, as far as that is due     as that room says

The places in the manifest decide what is in, and never an ack: a subscriber that was lost, or set
back, or goes by another name, brings nothing in twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pyarrow as pa

from quiver.clock import Clock, SystemClock
from quiver.errors import DamageError, RemoteError
from quiver.ship.objects import Bucket, UnclearError, open_bucket
from quiver.units import SECOND
from quiver.upsert.feeding.intake import Gathered, Intake, Subscriber
from quiver.upsert.feeding.options import FeedOptions
from quiver.upsert.feeding.shaping import Shaper
from quiver.upsert.feeding.target import Target
from quiver.upsert.feeding.telling import FeedTally, PassedBy, Told, Trouble

__all__ = ["Feeder"]

_LOOK: Final = 0.25
"""So long nobody looks whether it is to stop."""
_FAILURES_MAX: Final = 5
_PAUSE_FIRST: Final = 0.25
_PAUSE_MAX: Final = 30.0


class Feeder:
    """Feeds one collection from one subscriber. ``run`` is for one thread, ``stop`` for any."""

    def __init__(
        self,
        subscriber: Subscriber,
        into: str | Bucket,
        options: FeedOptions,
        *,
        clock: Clock | None = None,
        watch: Callable[[Told], object] | None = None,
        schema: pa.Schema | None = None,
    ) -> None:
        """``into`` is a folder, or a bucket; ``watch`` is told what happens, from ``run``.

        With a ``schema``, of all that the slot has, ``run`` raises InputError for columns that are
        in neither it nor the collection before any rows have come.

        The subscriber is best asked for the slot alone, and used for nothing else.
        """
        self.tally = FeedTally()
        self._options = options
        self._clock = clock or SystemClock()
        self._watch = watch or (lambda _: None)
        self._stopping = False
        store = open_bucket(into) if isinstance(into, str) else into
        self._shaper, self._schema = Shaper(options), schema
        self._intake = Intake(subscriber, options, told=self._pass_by)
        self._target = Target(store, options, store_id=subscriber.store_id, clock=self._clock)

    def stop(self) -> None:
        """Take nothing more: ``run`` returns once all that was taken is in the collection."""
        self._stopping = True

    def run(self, *, follow: bool = False) -> FeedTally:
        """Feed what there is, or with ``follow`` all that comes until ``stop``.

        It ends as well when the subscriber is closed.

        While the store of the collection cannot be reached this tries again, with ``follow``
        without end. Raises FencedError if somebody newer writes the collection, InputError for
        rows that cannot be taken, DamageError, RemoteError, and SubscriberError if another process
        goes on as the subscriber. Whatever it raises, the next run goes on behind what is in.
        """
        failures, is_begun = 0, False
        try:
            while True:
                done = self.tally.epoch_count
                try:
                    if not is_begun:
                        self._begin()
                        is_begun = True
                    is_any = self._round(follow=follow)
                except RemoteError as error:
                    failures = 1 if self.tally.epoch_count > done else failures + 1
                    may_pass = error.retryable or isinstance(error, UnclearError)
                    if not may_pass or self._stopping or (failures > _FAILURES_MAX and not follow):
                        raise
                    self._watch(Trouble(error))
                    is_begun = False
                    self._pause(failures)
                    continue
                failures = 0
                if self._stopping or self._intake.is_over or not (is_any or follow):
                    self.tally.is_cut_short = self._stopping
                    return self.tally
        finally:
            self._intake.give_back()

    def _begin(self) -> None:
        offsets = self._target.begin()
        if self._schema is not None:
            self._shaper.check(self._schema, self._target.definition)
        self._intake.begin(offsets)

    def _pause(self, failures: int) -> None:
        """Wait, twice as long each time, a moment at a time: it may be told to stop."""
        seconds = min(_PAUSE_FIRST * 2 ** min(failures - 1, 10), _PAUSE_MAX)
        for _ in range(max(round(seconds / _PAUSE_FIRST), 1)):
            if not self._stopping:
                self._clock.pause(_PAUSE_FIRST)

    def _round(self, *, follow: bool) -> bool:
        """Gather an epoch and let it in; says whether there was any."""
        gathered = self._gather(follow=follow)
        self.tally.repeated_count = self._intake.repeated_count
        self.tally.is_held_up = self._intake.is_held_up
        if not gathered.parts:
            return False
        shaped = self._shaper.shape([part.rows for part in gathered.parts], self._target.definition)
        is_first = not self._intake.offsets
        told = self._target.append(shaped, gathered.positions())
        self.tally.is_begun |= is_first and told is not None
        self._intake.ack(gathered)
        bundle_count = sum(part.bundle_count for part in gathered.parts)
        if told is None:
            self.tally.bundle_count += bundle_count
            return True
        told = replace(told, bundle_count=bundle_count)
        self.tally.add(told)
        self._watch(told)
        self._target.tend()
        return True

    def _gather(self, *, follow: bool) -> Gathered:
        """Take bundles until there are enough, or none is there, or the first waited long enough.

        One look without anything ends it too, so that somebody looks whether it is to stop.
        """
        gathered = Gathered()
        every_ns = self._options.limits[1]
        while not self._stopping and self._intake.fits(gathered):
            wait = _LOOK if follow else None
            if follow and gathered.parts:
                rest_ns = gathered.begun_ns + every_ns - self._clock.monotonic_ns()
                if rest_ns <= 0:
                    break
                wait = min(rest_ns / SECOND, _LOOK)
            part = self._intake.take(gathered, wait)
            if part is not None:
                if not gathered.parts:
                    gathered.begun_ns = self._clock.monotonic_ns()
                gathered.add(part)
                continue
            if follow and self._intake.is_held_up:
                self._clock.pause(_LOOK)
            if self._intake.is_over or not (follow and gathered.parts):
                break
        return gathered

    def _pass_by(self, error: DamageError) -> None:
        self.tally.passed_count += 1
        self._watch(PassedBy(error))
