"""Ack as a subscriber what a streaming query has committed, and nothing that could be lost again.

::

    highest N in commits/ -> offsets/N -> sync both, what the sink wrote, and all folders -> ack

Whoever runs it comes to the same result, any number of times: the query itself, at each trigger
at which a batch was committed, and ``quiver spark-ack`` once it has ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from quiver.checkpoint.folder import CheckpointFolder
from quiver.checkpoint.note import Note
from quiver.checkpoint.offsets import decode_offset, is_offset_of
from quiver.checkpoint.reconciler import Reconciler
from quiver.clock import Clock
from quiver.consumer import Consumer, subscribe
from quiver.disk import LocalDisk
from quiver.engine.start import Start
from quiver.errors import ConfigError
from quiver.manifest import StoreManifest
from quiver.source.stores import Position, Positions
from quiver.source.stores.position import START

__all__ = ["Acker"]


class Acker(Reconciler[Positions]):
    """The subscriber of one source of a query, from whichever process.

    To make one is to take the lease: whoever was the subscriber before acks no more.
    """

    def __init__(self, note: Note, checkpoint: str, *, start: Start, clock: Clock) -> None:
        """Go on as the subscriber; raises ConfigError, MissingError if there is no store."""
        super().__init__(CheckpointFolder(checkpoint), note.sink, clock=clock)
        self._note = note
        try:
            # What follows the last batch is wanted, wherever the first one began.
            self._consumer = self._subscribe("earliest" if self.folder.is_begun else start)
        except BaseException:
            self.folder.close()
            raise

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

    def _check_ours(self, end: Positions, known: Positions) -> None:
        ahead = [core for core, at in end.items() if at > known.get(core, START)]
        if ahead:
            raise ConfigError(
                f"the checkpoint {self.folder.path} is ahead of this query in core {ahead[0]}: it "
                "is another one's",
                hint="say as checkpointLocation what the writer of this query is told",
            )

    def _is_acked(self, end: Positions) -> bool:
        acked: Mapping[int, Position] = self._consumer.positions()
        return all(acked.get(core, START) >= at for core, at in end.items())

    def _ack_before(self, end: Positions) -> int:
        return self._consumer.ack_before(end)

    def close(self) -> None:
        """Let go of everything; a second call does nothing."""
        self._consumer.close()
        self.folder.close()
