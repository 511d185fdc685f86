"""What of a queue comes next: one look at the manifest, in order, without what came before.

Nothing is handed out here: a cursor moves only over what nobody will get.
"""

from __future__ import annotations

from collections.abc import Iterator

from quiver.errors import DamagedEntry
from quiver.metrics import Metrics
from quiver.ship.consumer.cursors import Cursors
from quiver.ship.consumer.fetcher import POISON, Fetcher
from quiver.ship.consumer.identity import identity_of
from quiver.ship.consumer.values import Batch, CallRange, Descriptor
from quiver.ship.consumer.window import Window
from quiver.ship.queue import Entry, Queue

__all__ = ["Ahead"]


class Ahead:
    """What lies beyond the cursor of one consumer."""

    def __init__(
        self,
        queue: Queue,
        *,
        epoch: int,
        cursors: Cursors,
        window: Window,
        fetcher: Fetcher,
        skips: bool,
        metrics: Metrics,
    ) -> None:
        """With ``skips`` what cannot be delivered becomes a dead letter, else its error comes.

        A page of the manifest that is lost is never skipped: the batches that it named are whole.
        """
        self.length = 0
        """Entries at the last look."""
        self._queue, self._epoch = queue, epoch
        self._cursors, self._window = cursors, window
        self._fetcher, self._skips, self._metrics = fetcher, skips, metrics

    def descriptors(self) -> Iterator[Descriptor]:
        """Look at the manifest, and go through what is new in it. Raises FencedError."""
        view = self._queue.read(epoch=self._epoch)
        self.length = view.entry_count
        passed = self._cursors.last_passed
        for entry in view.entries(after=passed):
            self._fill_gap(entry)
            descriptor = self._descriptor(entry)
            if descriptor is None:
                self._cursors.pass_over(entry.sequence)
                self._metrics.add("quiver.ship.repeats", max(len(entry.items), 1))
            else:
                yield descriptor

    def deliver(self, descriptor: Descriptor) -> Batch | None:
        """Fetch a batch; None if it became a dead letter, over which the caller passes."""
        try:
            return self._fetcher.fetch(descriptor)
        except POISON as error:
            if not self._skips:
                raise
            self._set_aside(descriptor, error)
            return None

    def _set_aside(self, descriptor: Descriptor, error: Exception) -> None:
        """Make a dead letter, unless somebody newer has read and swept all of it."""
        self._queue.read(epoch=self._epoch)
        self._fetcher.set_aside(descriptor, error)

    def _fill_gap(self, entry: Entry) -> None:
        """See that no entry is missing in front of this one."""
        passed = self._cursors.last_passed
        if passed is None or entry.sequence == passed + 1:
            return
        error = DamagedEntry(
            "entries of the queue are missing",
            path=self._queue.place,
            expected=f"sequence {passed + 1}",
            found=entry.sequence,
            hint="somebody else dequeued them, or the stored sequence is old",
        )
        if not self._skips:
            raise error
        self._set_aside(Descriptor(passed + 1, "", ()), error)
        self._cursors.pass_over(entry.sequence - 1)

    def _descriptor(self, entry: Entry) -> Descriptor | None:
        """Make what is handed out; None for what was delivered before."""
        if self._window.first(entry.location, entry.sequence) is not None:
            return None
        identities = [identity_of(item.payload) for item in entry.items]
        repeats = self._window.repeats(identities, entry.sequence)
        if repeats and len(repeats) == len(entry.items):
            return None
        calls = tuple(CallRange(*item) for item in entry.items)
        size, checksum = entry.batch or (None, None)
        return Descriptor(entry.sequence, entry.location, calls, size, checksum, repeats)
