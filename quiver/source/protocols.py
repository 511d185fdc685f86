"""What a connector is made of: who lists splits, who reads one, and what both hand out.

A **split** is a part of a source that is read in order by one reader at a time: a core of a store,
a stream of a message queue, a share of a folder's files. A **state** is a text that says what
follows: a reader restored from it gives exactly the rows behind it, and the same state gives the
same rows in the same order for as long as the source has them. None is the start of a split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

__all__ = ["Connector", "Split", "SplitBatch", "SplitEnumerator", "SplitReader", "States"]

States: TypeAlias = Mapping[str, str]
"""The state of each split, by the split's id; a split that is missing is at its start."""


@dataclass(frozen=True, slots=True)
class Split:
    """One part of a source. ``properties`` are texts with which a reader finds it, anywhere.

    Two splits of one id are the same split, whatever their properties say.
    """

    id: str
    properties: Mapping[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class SplitBatch:
    """Rows of one split, where each is in it, and the state that says what follows them.

    ``offsets`` has a value for each row, of one type for all batches of a connector; together
    with the id of the split it names the row. A batch without rows moves the state alone. The
    schema may change from one batch of a split to the next.
    """

    batch: pa.RecordBatch
    offsets: pa.Array[Any]
    state: str


class SplitReader(Protocol):
    """Reads one split from one state on. One thread calls ``next``; any may call ``close``."""

    def next(self, timeout: float) -> SplitBatch | None:
        """Give the next batch, or None if there is none within ``timeout`` seconds; 0: at once.

        None says nothing about the end: ask again. Raises SourceError if the source is not what
        the state says, or is gone; a ``retryable`` one may go away for a reader made anew from
        the last state. After ``close`` it raises ClosedError.
        """
        ...

    def is_drained(self) -> bool:
        """Whether nothing will ever follow; a split without an end always says no."""
        ...

    def close(self) -> None:
        """Let go of everything and wake a ``next`` that waits; a second call does nothing."""
        ...


class SplitEnumerator(Protocol):
    """Finds the splits of a source. One thread at a time uses it."""

    def list_splits(self) -> Sequence[Split]:
        """Look which splits there are now, in order of their ids.

        A split that was given once is given again until it is drained: a source that only seems
        to have lost it raises instead. Raises SourceError if the source cannot be asked; what was
        known before stays true.
        """
        ...

    def close(self) -> None:
        """Let go of everything; a second call does nothing."""
        ...


class Connector(Protocol):
    """One kind of source, with its options: makes enumerators and readers.

    ``drops_splits`` says whether a split that is missing from a list is drained and may be let
    go; if not, splits are only ever added.
    """

    @property
    def name(self) -> str:
        """What the connector is called in options, states and messages."""
        ...

    @property
    def drops_splits(self) -> bool:
        """Whether a split that is listed no more is gone for good."""
        ...

    def enumerator(self) -> SplitEnumerator:
        """Connect to the source; raises SourceError if that fails, ConfigError for bad options."""
        ...

    def reader(self, split: Split, state: str | None, columns: Sequence[str] | None) -> SplitReader:
        """Restore a reader that gives what follows ``state``, of ``columns`` alone, in their order.

        None for the columns is all of them; none at all (an empty sequence) leaves the rows'
        number. Raises InputError for a state or a column that it does not understand.
        """
        ...

    def acknowledge(self, states: States) -> None:
        """Tell the source that all before these states is safe elsewhere, for good.

        It is called once an epoch with them is committed and never before; a source that has
        nobody to tell does nothing. Raises SourceError; then the same may be told again.
        """
        ...
