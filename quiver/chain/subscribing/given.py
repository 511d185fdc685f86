"""Bundles of a chain in a consumer's hands; their outcomes are those of any ``Handle``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from quiver.bundle import RecordBundle
from quiver.casts import conform_table, join_tables
from quiver.errors import SubscriberError
from quiver.promote import union_schema
from quiver.schemas import same_schema_as
from quiver.subscriber import BundleHandle, BundleRun, Claim, Handle

if TYPE_CHECKING:
    from quiver.chain.subscribing.feed import Found

__all__ = ["ChainHandle", "ChainRun", "Given", "Outcomes"]


class Outcomes(Protocol):
    """What becomes of what was given: a subscription."""

    def ack(self, given: Given) -> None:
        """Resolve it."""
        ...

    def nack(self, given: Given, *, retry_after_ns: int | None, reason: str) -> None:
        """Offer it again later."""
        ...

    def reject(self, given: Given, *, reason: str) -> None:
        """Give it up."""
        ...

    def defer(self, given: Given) -> None:
        """Offer it again."""
        ...

    def defer_later(self, given: Given) -> None:
        """Offer it again, sometime."""
        ...


class _ChainClaim(Handle):
    """A claim whose outcome is written first, and then waited for.

    An outcome that raises was not given, unless it is ``resolved`` then: it was written, and not
    all copies are known to have it. The same outcome once more waits for that again.
    """

    __slots__ = ()

    @property
    def resolved(self) -> bool:
        """Whether it has its outcome, or that is on its way."""
        given = self._delivery
        return super().resolved or (isinstance(given, Given) and bool(given.written))


class ChainHandle(_ChainClaim, BundleHandle):
    """One bundle of a partition: as ``BundleHandle``; its segment is the block.

    An ack that raises and leaves it ``resolved`` was written: ``ack()`` again waits for the copies.
    """

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


class ChainRun(_ChainClaim, BundleRun):
    """Bundles of one block in a row: as ``BundleRun``; outcomes are those of ``ChainHandle``."""

    __slots__ = ("partition",)

    def __init__(self, found: Found, given: Given, *, subscriber: str) -> None:
        slots = tuple(slot.name for slot in found.loaded.slots)
        super().__init__(found.claim, given, subscriber=subscriber, slots=slots)
        self.partition = found.lane.partition


class Given:
    """What was found, and where its outcome goes."""

    def __init__(self, outcomes: Outcomes, found: Found) -> None:
        self._outcomes = outcomes
        self.found = found
        self.bundles = found.bundles
        self.written = ""
        """The outcome that is in the log, whether all copies are known to have it or not."""
        self.is_late = False
        """Whether somebody waited for that in vain, so that another outcome is told that."""

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

    def ack(self, claim: Claim) -> None:  # noqa: ARG002
        """Resolve the bundles."""
        self._check("acked")
        self._outcomes.ack(self)

    def nack(  # As all that is given: of what was found.
        self,
        claim: Claim,  # noqa: ARG002
        *,
        retry_after_ns: int | None,
        reason: str,
    ) -> None:
        """Have them offered again later, or given up; what was given up is waited for again."""
        if self.written != "rejected":
            self._check("nacked")
        self._outcomes.nack(self, retry_after_ns=retry_after_ns, reason=reason)

    def reject(self, claim: Claim, *, reason: str) -> None:  # noqa: ARG002
        """Have them given up."""
        self._check("rejected")
        self._outcomes.reject(self, reason=reason)

    def defer(self, claim: Claim) -> None:  # noqa: ARG002
        """Have them offered again."""
        self._check("deferred")
        self._outcomes.defer(self)

    def defer_later(self, claim: Claim) -> None:  # noqa: ARG002
        """Note that they are to be offered again."""
        self._outcomes.defer_later(self)

    def _check(self, outcome: str) -> None:
        """Raise if another outcome stands; behind an interrupt that is for its caller to say."""
        if self.is_late and outcome != self.written:
            raise SubscriberError(
                f"it was {self.written}, and that is written",
                hint="the same outcome again waits until all copies have it",
            )
