"""Fetch the batches of a share, and decide about those that cannot be had.

A task fetches each batch whole and never looks at the manifest, so nobody has to be asked whether
it may; the next batch comes while the rows of one are handed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from quiver.errors import MissingError, QuiverError, SourceError
from quiver.events import Events
from quiver.ship.consumer import Batch, Descriptor, Fetcher
from quiver.ship.consumer.fetcher import POISON
from quiver.ship.objects import Bucket
from quiver.ship.queue import Queue
from quiver.spark.queue.shares import Share

__all__ = ["Fetching"]


@dataclass(frozen=True)
class Fetching:
    """Where batches come from, and what becomes of one that is gone or damaged."""

    bucket: Bucket
    fails_on_loss: bool = True

    @property
    def place(self) -> str:
        """The queue, as messages name it."""
        return self.bucket.place

    def ahead(self, share: Share) -> Iterator[tuple[Descriptor, Batch]]:
        """Fetch one after the other, each while its predecessor is used.

        Raises SourceError for what cannot be read, unless that is passed over; RemoteError.
        """
        descriptors, fetcher = share.descriptors, Fetcher(self.bucket)

        def fetch(descriptor: Descriptor) -> Batch | None:
            try:
                return fetcher.fetch(descriptor)
            except POISON as error:
                self.lost(descriptor, error, epoch=share.epoch)
                return None

        if not descriptors:
            return
        with ThreadPoolExecutor(1, thread_name_prefix="quiver-fetch") as pool:
            coming: Future[Batch | None] | None = pool.submit(fetch, descriptors[0])
            for place, descriptor in enumerate(descriptors):
                batch = None if coming is None else coming.result()
                rest = descriptors[place + 1 : place + 2]
                coming = pool.submit(fetch, rest[0]) if rest else None
                if batch is not None:
                    yield descriptor, batch

    def lost(self, descriptor: Descriptor, error: QuiverError, *, epoch: int | None) -> None:
        """Raise SourceError for a batch that cannot be read, or note it so that one can go on.

        The consumer of that ``epoch`` makes a dead letter of it. Raises FencedError if there is a
        newer one: that may have acked the batch and swept it.
        """
        if self.fails_on_loss:
            raise self._unreadable(descriptor, error) from error
        if epoch is not None:
            Queue(self.bucket).read(epoch=epoch)
            Fetcher(self.bucket).set_aside(descriptor, error)
        events = Events(store=self.place)
        events.warning(
            "spark.batch_lost",
            sequence=descriptor.sequence,
            location=descriptor.location,
            error=error,
        )
        events.tell()

    def _unreadable(self, descriptor: Descriptor, error: QuiverError) -> SourceError:
        what = "is gone" if isinstance(error, MissingError) else f"cannot be read: {error}"
        return SourceError(
            f"the batch of entry {descriptor.sequence} of {self.place}, {descriptor.location}, "
            f"{what}",
            split=self.place,
            hint="of a DataFrame the snapshot may have expired: load it again; "
            "failOnDataLoss=false goes on without the batch",
        )
