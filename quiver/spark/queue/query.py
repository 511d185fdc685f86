"""What a streaming query asks of a queue: everything that its processes have to agree on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, Protocol

import pyarrow as pa

from quiver.ship.objects import Bucket
from quiver.source.stores import Limits
from quiver.spark.queue.shares import Share
from quiver.spark.queue.slots import Known

__all__ = ["QueueQuery", "Recipe", "read_share"]


class Recipe(Protocol):
    """How to read shares of one queue, in batches of at most 64 k rows; goes to the tasks."""

    def read(self, share: Share) -> Iterator[pa.RecordBatch]:
        """Read one share, in the order of the queue."""
        ...


@dataclass(frozen=True)
class QueueQuery:
    """One streaming source."""

    bucket: Bucket
    slot: str
    """Empty if records are read as they are."""
    recipe: Recipe
    known: Known | None = None
    """What is known of the slot, so that what has nothing of it is not fetched."""
    schema: pa.Schema | None = None
    """The columns that are read, for who starts the query again when the queue is empty."""
    start: Literal["earliest", "latest"] = "earliest"
    since_ns: int | None = None
    limits: Limits = field(default_factory=Limits)
    bytes_max: int = 128 << 20
    count_min: int = 1
    consumes: bool = True
    poll_ns: int = 0
    sweeps: bool = True
    fails_on_loss: bool = True
    checkpoint: str = ""
    """The query's checkpoint if it is on a disk of this machine."""
    sink: str = ""

    @property
    def place(self) -> str:
        """The queue, as messages and offsets name it."""
        return self.bucket.place


def read_share(query: QueueQuery, share: Share | tuple[()]) -> Iterator[pa.RecordBatch]:
    """Read the share of one task; of no share there is nothing."""
    return query.recipe.read(share) if isinstance(share, Share) else iter(())
