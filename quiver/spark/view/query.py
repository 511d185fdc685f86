"""What a streaming query asks of a collection: everything that its processes have to agree on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from quiver.source.stores import Limits
from quiver.spark.view.options import Moment
from quiver.spark.view.recipe import ViewRecipe
from quiver.spark.view.shares import Share

__all__ = ["ViewQuery", "read_share"]


@dataclass(frozen=True)
class ViewQuery:
    """One streaming source."""

    recipe: ViewRecipe
    collection: str
    """The id of the collection that was there when the query was made."""
    begin: Moment | None = None
    """Where a query without a checkpoint begins; None for now."""
    with_state: bool = True
    """Whether it is given the whole state as of then first."""
    limits: Limits = field(default_factory=Limits)
    """Epochs count as segments."""
    bytes_max: int = 128 << 20
    count_min: int = 1
    poll_ns: int = 0
    fails_on_loss: bool = True
    ignores_change: bool = False
    """Whether columns that come later are left out."""
    checkpoint: str = ""
    """Nothing is acked, so the query's checkpoint is not looked at."""

    @property
    def place(self) -> str:
        """The collection, as messages name it."""
        return self.recipe.place


def read_share(query: ViewQuery, share: Share | tuple[()]) -> Iterator[pa.RecordBatch]:
    """Read the share of one task; of no share there is nothing."""
    return query.recipe.read(share) if isinstance(share, Share) else iter(())
