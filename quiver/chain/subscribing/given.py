"""Bundles of a chain in a consumer's hands; their outcomes are those of any ``Handle``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from quiver.bundle import RecordBundle
from quiver.casts import conform_table, join_tables
from quiver.promote import union_schema
from quiver.schemas import same_schema_as
from quiver.subscriber import BundleHandle, BundleRun, Claim

if TYPE_CHECKING:
    from quiver.chain.subscribing.feed import Found
    from quiver.chain.subscribing.marks import Lane

__all__ = ["ChainHandle", "ChainRun", "Given", "Outcomes"]


class Outcomes(Protocol):
    """What becomes of claims: a subscription."""

    def ack(self, lane: Lane, claim: Claim) -> None:
        """Resolve it."""
        ...

    def nack(
        self, lane: Lane, claim: Claim, found: Found, *, retry_after_ns: int | None, reason: str
    ) -> None:
        """Offer it again later."""
        ...

    def reject(self, lane: Lane, claim: Claim, found: Found, *, reason: str) -> None:
        """Give it up."""
        ...

    def defer(self, lane: Lane, claim: Claim) -> None:
        """Offer it again."""
        ...

    def defer_later(self, lane: Lane, claim: Claim) -> None:
        """Offer it again, sometime."""
        ...


class ChainHandle(BundleHandle):
    """One bundle of a partition: as ``BundleHandle``; its segment is the block."""

    __slots__ = ("partition",)

    def __init__(self, found: Found, given: Given, *, subscriber: str) -> None:
        entry = found.loaded.reader.bundle_entry(found.claim.bundle_index)
        super().__init__(
            found.claim,
            given,
            subscriber=subscriber,
            slots=tuple(given.bundles[0]),
            wal_seq=entry.wal_seq,
            ingestion_ns=entry.ingestion_ns,
        )
        self.partition = found.lane.partition


class ChainRun(BundleRun):
    """Bundles of one block in a row: as ``BundleRun``."""

    __slots__ = ("partition",)

    def __init__(self, found: Found, given: Given, *, subscriber: str) -> None:
        slots = tuple(slot.name for slot in found.loaded.slots)
        super().__init__(found.claim, given, subscriber=subscriber, slots=slots)
        self.partition = found.lane.partition


class Given:
    """What was found, and where its outcome goes."""

    def __init__(self, outcomes: Outcomes, found: Found) -> None:
        self._outcomes = outcomes
        self._found = found
        self.bundles = found.bundles

    def read(self, claim: Claim, slot: str) -> pa.RecordBatch:  # noqa: ARG002 One alone.
        """Give the batch of one slot of the bundle."""
        return self.bundles[0][slot]

    def read_run(self, claim: Claim, slot: str) -> pa.Table:  # noqa: ARG002 As claimed.
        """Join what the bundles have in one slot."""
        parts = [pa.Table.from_batches([bundle[slot]]) for bundle in self.bundles if slot in bundle]
        if not parts:
            return pa.table({})
        schema = parts[0].schema
        is_same = same_schema_as(schema)
        if not all(is_same(part.schema) for part in parts):
            schema = union_schema(part.schema for part in parts)
            parts = [conform_table(part, schema) for part in parts]
        return join_tables(parts, schema)

    def read_each(self, claim: Claim) -> Iterator[Mapping[str, pa.RecordBatch]]:  # noqa: ARG002
        """Go through the bundles."""
        return (RecordBundle(bundle) for bundle in self.bundles)

    def ack(self, claim: Claim) -> None:
        """Resolve the bundles."""
        self._outcomes.ack(self._found.lane, claim)

    def nack(self, claim: Claim, *, retry_after_ns: int | None, reason: str) -> None:
        """Have them offered again later."""
        lane, found = self._found.lane, self._found
        self._outcomes.nack(lane, claim, found, retry_after_ns=retry_after_ns, reason=reason)

    def reject(self, claim: Claim, *, reason: str) -> None:
        """Have them given up."""
        self._outcomes.reject(self._found.lane, claim, self._found, reason=reason)

    def defer(self, claim: Claim) -> None:
        """Have them offered again."""
        self._outcomes.defer(self._found.lane, claim)

    def defer_later(self, claim: Claim) -> None:
        """Note that they are to be offered again."""
        self._outcomes.defer_later(self._found.lane, claim)
