"""Ack as a subscriber what a streaming query has committed, and nothing that could be lost again.

::

    highest N in commits/ -> offsets/N -> sync both, what the sink wrote, and all folders -> ack

Whoever runs it comes to the same result, any number of times: the query itself, at each trigger
at which a batch was committed, and ``quiver spark-ack`` once it has ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing, suppress
from typing import Final

from quiver.checkpoint.folder import CheckpointFolder
from quiver.checkpoint.note import Note
from quiver.checkpoint.offsets import decode_offset, is_offset_of
from quiver.checkpoint.sink import FileSink
from quiver.clock import Clock
from quiver.consumer import Consumer, subscribe
from quiver.disk import LocalDisk, sync_everything
from quiver.engine.start import Start
from quiver.errors import ConfigError, DamageError, MissingError
from quiver.manifest import StoreManifest
from quiver.source.stores import Position, Positions
from quiver.source.stores.position import START
from quiver.units import SECOND

__all__ = ["SYNCED", "Acker"]

SYNCED: Final = "synced"
"""Said instead of a folder if the sink makes its rows durable itself."""


class Acker:
    """The subscriber of one source of a query, from whichever process.

    To make one is to take the lease: whoever was the subscriber before acks no more.
    """

    def __init__(self, note: Note, checkpoint: str, *, start: Start, clock: Clock) -> None:
        """Go on as the subscriber; raises ConfigError, MissingError if there is no store."""
        self.folder = CheckpointFolder(checkpoint)
        self._sink = None if note.sink in ("", SYNCED) else FileSink(note.sink)
        self._note, self._clock = note, clock
        try:
            # What follows the last batch is wanted, wherever the first one began.
            self._consumer = self._subscribe("earliest" if self.folder.is_begun else start)
        except BaseException:
            self.folder.close()
            raise
        self._seen_ns = -1
        self._done = -1

    def _subscribe(self, start: Start) -> Consumer:
        note = self._note
        with closing(LocalDisk(note.store)) as disk:
            found = StoreManifest.read(disk).store_id
        if found != note.store_id:  # Before it is told of a subscriber that nobody would be.
            raise ConfigError(
                f"the store in {note.store} is {found}, and the query read {note.store_id}",
                hint="name the folder in which that store is now",
            )
        return subscribe(note.store, note.subscriber, start=start, worker=False, clock=self._clock)

    def positions(self) -> dict[int, Position]:
        """Say how far the subscriber is in each core: the first bundle that is not acked."""
        return self._consumer.positions()

    def check(self) -> None:
        """Raise SubscriberError if another process goes on as the subscriber."""
        self._consumer.check_lease()

    @property
    def is_paused(self) -> bool:
        """Whether the store was told to hand out nothing to the subscriber."""
        return self._consumer.is_paused

    @property
    def batch(self) -> int | None:
        """The newest batch whose bundles were acked here; None if there was none."""
        return self._done if self._done >= 0 else None

    def reconcile(self, known: Positions | None = None) -> int:
        """Ack all that is committed; gives how many bundles that was.

        Does nothing unless a batch was committed since it was called last. ``known`` is how far
        the query is known to have come: a checkpoint that is ahead of that is another one's.
        Raises ConfigError then, StorageError if something cannot be synced, SubscriberError.
        """
        changed_ns = self.folder.changed_ns()
        if not changed_ns or changed_ns == self._seen_ns:
            return 0
        is_settled = changed_ns < self._clock.wall_ns() - SECOND  # Else it may change unseen.
        found = self._committed()
        count = 0 if found is None else self._ack(*found, known=known)
        self._seen_ns = changed_ns if is_settled else -1
        return count

    def _ack(self, batch: int, ends: Positions, *, known: Positions | None) -> int:
        if known is not None:
            self._check_ours(ends, known)
        self._sync(batch)
        count = self._consumer.ack_before(ends)
        self._done = batch
        return count

    def _committed(self) -> tuple[int, dict[int, Position]] | None:
        """Find the newest batch that is committed whole, and where it ended."""
        for batch in reversed(self.folder.committed()):
            if batch <= self._done:
                break
            with suppress(MissingError, DamageError):  # What a power cut left: not committed.
                if self.folder.is_whole(batch):
                    return batch, self._ends(batch)
        return None

    def _ends(self, batch: int) -> dict[int, Position]:
        """Read where a batch ended; where one slot was read twice, the one that is behind."""
        asked = {"store_id": self._note.store_id, "slot": self._note.slot}
        ours = [
            decode_offset(value, **asked)
            for value in self.folder.offsets(batch)
            if is_offset_of(value, **asked)
        ]
        if not ours:
            raise ConfigError(
                f"the checkpoint {self.folder.path} has nothing of slot {self._note.slot!r} of "
                f"store {self._note.store_id} in batch {batch}",
                hint="checkpointLocation must be that of the query itself",
            )
        cores = set.intersection(*(set(each) for each in ours))
        return {core: min(each[core] for each in ours) for core in cores}

    def _check_ours(self, ends: Positions, known: Positions) -> None:
        ahead = [core for core, end in ends.items() if end > known.get(core, START)]
        if ahead:
            raise ConfigError(
                f"the checkpoint {self.folder.path} is ahead of this query in core {ahead[0]}: it "
                "is another one's",
                hint="say as checkpointLocation what the writer of this query is told",
            )

    def _sync(self, batch: int) -> None:
        """Make durable all that was committed since the last ack."""
        if self._sink is not None:
            self._sink.sync(self._batches_since(batch))
        elif not self._note.sink:
            sync_everything()
        self.folder.sync(batch)

    def _batches_since(self, batch: int) -> list[int]:
        """List the batches up to this one whose bundles are not all acked yet.

        Also those whose own commit is not there: Spark takes them for committed as well.
        """
        acked: Mapping[int, Position] = self._consumer.positions()
        found = []
        for each in range(batch, self._done, -1):
            try:
                ends = self._ends(each)
            except (MissingError, DamageError, ConfigError):
                break  # So old that Spark has cleared it up.
            if each < batch and all(acked.get(core, START) >= end for core, end in ends.items()):
                break
            found.append(each)
        return found

    def close(self) -> None:
        """Let go of everything; a second call does nothing."""
        self._consumer.close()
        self.folder.close()
