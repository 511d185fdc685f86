"""What a handle asks of the store. All of it was read, and so checked, when it was claimed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa

from quiver.bundle import RecordBundle
from quiver.casts import conform_table, join_tables
from quiver.engine import delivery
from quiver.engine.delivery import Found
from quiver.engine.desk import Desk
from quiver.promote import union_schema
from quiver.schemas import same_schema_as
from quiver.subscriber import Claim, Delivery

__all__ = ["Given"]


class Given(Delivery):
    """The data of one handle, and its way back to the store."""

    def __init__(
        self,
        core: Desk,
        found: Found,
        check: Callable[[], None],
        *,
        slots: Collection[int] | None,
    ) -> None:
        self._core = core
        self._check = check
        self._found = found
        self._slots = slots

    def read(self, claim: Claim, slot: str) -> pa.RecordBatch:  # noqa: ARG002
        """Give the batch of one slot of the bundle."""
        return self._found.bundle[slot]

    def read_run(self, claim: Claim, slot: str) -> pa.Table:
        """Join what the bundles have in one slot; only what has to be widened is copied."""
        slot_id = self._core.manifest.slots[slot].slot_id
        parts = list(self._found.opened.tables(claim.bundle_index, claim.count, slot_id))
        if not parts:
            return pa.table({})
        schema = parts[0].schema
        is_same = same_schema_as(schema)
        if not all(is_same(part.schema) for part in parts):
            schema = union_schema(part.schema for part in parts)
            return join_tables([conform_table(part, schema) for part in parts], schema)
        return join_tables(list(_tables(parts, schema)), schema)

    def read_each(self, claim: Claim) -> Iterator[Mapping[str, pa.RecordBatch]]:
        """Go through the bundles."""
        table, opened = self._core.manifest.slots, self._found.opened
        for index in range(claim.bundle_index, claim.bundle_index + claim.count):
            batches = opened.bundle(index, self._slots)
            yield RecordBundle({table[slot_id].name: batch for slot_id, batch in batches.items()})

    def ack(self, claim: Claim) -> None:
        """Resolve the bundles."""
        # No context manager: of all outcomes this one has to be quick.
        self._core.check_process()
        self._core.refuse_nested()
        with self._core.lock:
            self._check()
            delivery.ack(self._core, claim)

    def nack(self, claim: Claim, *, retry_after_ns: int | None, reason: str) -> None:
        """Have them offered again later."""
        with self._hold():
            delivery.nack(self._core, claim, retry_after_ns, reason=reason)

    def reject(self, claim: Claim, *, reason: str) -> None:
        """Have them set aside."""
        with self._hold():
            delivery.reject(self._core, claim, reason=reason)

    def defer(self, claim: Claim) -> None:
        """Have them offered again."""
        with self._hold():
            delivery.defer(self._core, claim)

    @contextmanager
    def _hold(self) -> Iterator[None]:
        self._core.check_process()
        self._core.refuse_nested()
        with self._core.events.telling(), self._core.lock:
            self._check()
            yield

    def defer_later(self, claim: Claim) -> None:
        """Note that they are to be deferred."""
        self._core.forgotten.append(claim)


def _tables(parts: Iterable[pa.Table | pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Make one table of batches that follow each other: one of each takes ten times as long."""
    batches: list[pa.RecordBatch] = []
    for part in parts:
        if isinstance(part, pa.RecordBatch):
            batches.append(part)
            continue
        if batches:
            yield pa.Table.from_batches(batches, schema)
            batches = []
        yield part
    if batches:
        yield pa.Table.from_batches(batches, schema)
