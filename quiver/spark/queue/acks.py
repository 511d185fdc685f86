"""Dequeue what a streaming query has committed, and nothing that could be lost again.

=====================================  =========================================================
the checkpoint                         what is dequeued, and when
=====================================  =========================================================
in a folder of this machine, named     what it says is committed, at the next trigger, once its
                                       entries, the sink's files and all folders are synced
elsewhere, or not named                what Spark says is committed, when it plans the next batch,
                                       once all of this machine is synced: there it is as durable
                                       as that place makes it
=====================================  =========================================================
"""

from __future__ import annotations

from typing import Protocol

from quiver.checkpoint import SYNCED, CheckpointFolder, Reconciler
from quiver.clock import Clock
from quiver.disk import sync_everything
from quiver.errors import ConfigError
from quiver.ship.queue import Queue
from quiver.spark.queue.offsets import Offset, decode_offset, is_offset_of
from quiver.spark.queue.query import QueueQuery

__all__ = ["Acks", "acks_of"]


class Acks(Protocol):
    """Takes out of the queue what is done with."""

    def unsure(self) -> None:
        """Hear that the next batch may begin where nothing is committed yet."""
        ...

    def note(self, begin: Offset) -> None:
        """Do what can be done at a trigger whose batch begins there; all before it is planned."""
        ...

    def committed(self, end: Offset) -> None:
        """Spark has committed all that is before ``end``."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


def acks_of(query: QueueQuery, queue: Queue, *, epoch: int | None, clock: Clock) -> Acks:
    """Choose how a query acks; without an ``epoch`` it only looks, and never does."""
    if epoch is None:
        return _Never()
    if query.checkpoint:
        return CheckpointAcks(query, queue, epoch=epoch, clock=clock)
    return _AsTold(query, queue, epoch=epoch)


class _Never:
    """Of a query that only looks."""

    def unsure(self) -> None:
        """Do nothing."""

    def note(self, begin: Offset) -> None:
        """Do nothing."""

    def committed(self, end: Offset) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class _Dequeuer:
    """Removes from a queue what is before an offset, once."""

    def __init__(self, queue: Queue, epoch: int) -> None:
        self._queue, self._epoch = queue, epoch
        self.acked = 0
        """All before it is out of the queue, as far as is known here."""

    def before(self, end: Offset) -> int:
        """Remove what is before ``end``; gives how many entries that were. Raises FencedError."""
        if end.sequence <= self.acked:
            return 0
        count = self._queue.dequeue(end.sequence - 1, epoch=self._epoch)
        self.acked = end.sequence
        return count


class _AsTold:
    """Acks when Spark says that it has committed, which is one batch late."""

    def __init__(self, query: QueueQuery, queue: Queue, *, epoch: int) -> None:
        self._syncs = query.sink != SYNCED
        self._dequeuer = _Dequeuer(queue, epoch)
        self._is_first = True

    def unsure(self) -> None:
        """Wait for what Spark says."""
        self._is_first = False

    def note(self, begin: Offset) -> None:
        """Ack what was committed before this process came: Spark does not say that again."""
        if self._is_first:
            self.committed(begin)

    def committed(self, end: Offset) -> None:
        """Ack what is before ``end``, once that Spark has done with it is on the disk."""
        self._is_first = False
        if end.sequence <= self._dequeuer.acked:
            return
        if self._syncs:
            sync_everything()
        self._dequeuer.before(end)

    def close(self) -> None:
        """There is nothing to let go of."""


class CheckpointAcks(Reconciler[Offset]):
    """Acks what the checkpoint says is committed."""

    def __init__(self, query: QueueQuery, queue: Queue, *, epoch: int, clock: Clock) -> None:
        """Look at the checkpoint of a query that consumes a queue."""
        super().__init__(CheckpointFolder(query.checkpoint), query.sink, clock=clock)
        self._name = {"queue": query.place, "slot": query.slot}
        self._dequeuer = _Dequeuer(queue, epoch)

    def unsure(self) -> None:
        """Go by the checkpoint, which knows."""

    def note(self, begin: Offset) -> None:
        """Ack what is committed, if anything was since it was done last."""
        self.reconcile(begin)

    def committed(self, end: Offset) -> None:
        """Ack what is committed; ConfigError if the checkpoint knows of no batch at all."""
        self.reconcile(end)
        if not self.folder.is_begun:
            raise ConfigError(
                f"checkpointLocation: {self.folder.path} has no batch, and Spark has committed "
                "one: nothing would ever be acked",
                hint="say what the writer of this query is told",
            )

    def close(self) -> None:
        """Let go of the folder."""
        self.folder.close()

    def _ends(self, batch: int) -> Offset:
        """Read where a batch ended; where one slot was read twice, the one that is behind."""
        ours = [
            decode_offset(value, **self._name)
            for value in self.folder.offsets(batch)
            if is_offset_of(value, **self._name)
        ]
        if not ours:
            raise ConfigError(
                f"the checkpoint {self.folder.path} has nothing of slot {self._name['slot']!r} of "
                f"the queue {self._name['queue']} in batch {batch}",
                hint="checkpointLocation must be that of the query itself",
            )
        return min(ours, key=lambda offset: offset.sequence)

    def _is_acked(self, end: Offset) -> bool:
        return end.sequence <= self._dequeuer.acked

    def _check_ours(self, end: Offset, known: Offset) -> None:
        if end.sequence > known.sequence:
            raise ConfigError(
                f"the checkpoint {self.folder.path} is ahead of this query: it is another one's",
                hint="say as checkpointLocation what the writer of this query is told",
            )

    def _ack_before(self, end: Offset) -> int:
        return self._dequeuer.before(end)
