"""From what a streaming query has committed to acks: the same steps whatever is acked.

::

    highest N in commits/ -> offsets/N -> sync both, what the sink wrote, and all folders -> ack
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Final, Generic, TypeVar

from quiver.checkpoint.folder import CheckpointFolder
from quiver.checkpoint.sink import FileSink
from quiver.clock import Clock
from quiver.disk import sync_everything
from quiver.errors import ConfigError, DamageError, MissingError
from quiver.units import SECOND

__all__ = ["SYNCED", "Reconciler"]

SYNCED: Final = "synced"
"""Said instead of a folder if the sink makes its rows durable itself."""

End = TypeVar("End")
"""Where a batch of one source ended."""


class Reconciler(ABC, Generic[End]):
    """Finds what is committed, makes it durable, and has it acked."""

    def __init__(self, folder: CheckpointFolder, sink: str, *, clock: Clock) -> None:
        """Look at a checkpoint; ``sink`` is a folder, ``synced``, or empty if nothing is known."""
        self.folder = folder
        self._clock = clock
        self._sink = None if sink in ("", SYNCED) else FileSink(sink)
        self._syncs_all = not sink
        self._seen_ns = -1
        self._done = -1

    @abstractmethod
    def _ends(self, batch: int) -> End:
        """Read where a batch ended; raises ConfigError if the checkpoint has nothing of ours."""

    @abstractmethod
    def _is_acked(self, end: End) -> bool:
        """Whether everything before an end is acked."""

    @abstractmethod
    def _check_ours(self, end: End, known: End) -> None:
        """Raise ConfigError if an end is beyond what this query is known to have come to."""

    @abstractmethod
    def _ack_before(self, end: End) -> int:
        """Ack everything before an end; gives how much that was."""

    @property
    def batch(self) -> int | None:
        """The newest batch whose bundles were acked here; None if there was none."""
        return self._done if self._done >= 0 else None

    def reconcile(self, known: End | None = None) -> int:
        """Ack all that is committed; gives how much that was.

        Does nothing unless a batch was committed since it was called last. ``known`` is how far
        the query is known to have come: a checkpoint that is ahead of that is another one's.
        Raises ConfigError then, StorageError if something cannot be synced, and what an ack does.
        """
        changed_ns = self.folder.changed_ns()
        if not changed_ns or changed_ns == self._seen_ns:
            return 0
        is_settled = changed_ns < self._clock.wall_ns() - SECOND  # Else it may change unseen.
        found = self._committed()
        count = 0 if found is None else self._ack(*found, known=known)
        self._seen_ns = changed_ns if is_settled else -1
        return count

    def _ack(self, batch: int, end: End, *, known: End | None) -> int:
        if known is not None:
            self._check_ours(end, known)
        self._sync(batch)
        count = self._ack_before(end)
        self._done = batch
        return count

    def _committed(self) -> tuple[int, End] | None:
        """Find the newest batch that is committed whole, and where it ended."""
        for batch in reversed(self.folder.committed()):
            if batch <= self._done:
                break
            with suppress(MissingError, DamageError):  # What a power cut left: not committed.
                if self.folder.is_whole(batch):
                    return batch, self._ends(batch)
        return None

    def _sync(self, batch: int) -> None:
        """Make durable all that was committed since the last ack."""
        if self._sink is not None:
            self._sink.sync(self._batches_since(batch))
        elif self._syncs_all:
            sync_everything()
        self.folder.sync(batch)

    def _batches_since(self, batch: int) -> list[int]:
        """List the batches up to this one of which not all is acked yet.

        Also those whose own commit is not there: Spark takes them for committed as well.
        """
        found = []
        for each in range(batch, self._done, -1):
            try:
                end = self._ends(each)
            except (MissingError, DamageError, ConfigError):
                break  # So old that Spark has cleared it up.
            if each < batch and self._is_acked(end):
                break
            found.append(each)
        return found
