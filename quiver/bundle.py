"""The unit that goes in and comes out: up to 64 slots, each an optional Arrow RecordBatch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import blake3
import pyarrow as pa

from quiver.config import LimitsConfig
from quiver.errors import InputError
from quiver.ipc import ARROW_FAULTS, check_schema
from quiver.schemas import has_plain_types, same_schema, sort_metadata, strip_metadata
from quiver.slots import SlotTable

__all__ = [
    "KnownSchema",
    "KnownSchemas",
    "RecordBundle",
    "as_record_batch",
    "fingerprint",
    "resolve_bundle",
    "without_metadata",
]

_KNOWN_MAX: Final = 4


class RecordBundle(Mapping[str, pa.RecordBatch]):
    """A read-only mapping from slot name to RecordBatch; absent slots are simply not in it.

    It can be made from anything that speaks Arrow: RecordBatch, Table, polars, pandas and other
    objects with ``__arrow_c_array__`` or ``__arrow_c_stream__``; a value of None is an absent slot.
    """

    __slots__ = ("_batches",)

    def __init__(self, batches: Mapping[str, Any]) -> None:
        """Convert each value to one RecordBatch, without a copy where it is one already."""
        self._batches = _as_batches(batches)

    def __getitem__(self, slot: str) -> pa.RecordBatch:
        """Give the batch of a slot; KeyError if the slot is absent."""
        return self._batches[slot]

    def __iter__(self) -> Iterator[str]:
        """Go through the names of the slots that are present."""
        return iter(self._batches)

    def __len__(self) -> int:
        """How many slots are present."""
        return len(self._batches)

    def equals(self, other: RecordBundle) -> bool:
        """Whether both hold the same slots with the same schemas and values."""
        return self._batches.keys() == other._batches.keys() and all(
            same_schema(batch.schema, other[name].schema) and batch.equals(other[name])
            for name, batch in self._batches.items()
        )

    def __repr__(self) -> str:
        """Give rows by slot."""
        inside = ", ".join(f"{name}: {batch.num_rows} rows" for name, batch in self.items())
        return f"RecordBundle({inside})"


def _as_batches(values: Mapping[str, Any]) -> dict[str, pa.RecordBatch]:
    """Convert each value that is one; raises InputError for what is no mapping of such."""
    if type(values) is RecordBundle:
        return values._batches  # noqa: SLF001
    if not isinstance(values, (dict, Mapping)):  # To ask for a dict takes no time.
        raise InputError(
            f"a bundle is a mapping of slot names to Arrow data, not {type(values).__name__}",
            hint='append({"slot name": record_batch})',
        )
    return {
        name: value if type(value) is pa.RecordBatch else as_record_batch(value, name)
        for name, value in values.items()
        if value is not None
    }


def as_record_batch(value: Any, name: str) -> pa.RecordBatch:  # noqa: ANN401
    """Turn any Arrow-speaking object into one RecordBatch; raises InputError naming the slot."""
    if isinstance(value, pa.RecordBatch):
        return value
    try:
        if isinstance(value, pa.Table):
            return _join(value, name)
        if hasattr(value, "__arrow_c_array__"):
            return pa.record_batch(value)
        if hasattr(value, "__arrow_c_stream__"):
            return _join(pa.table(value), name)
    except InputError:
        raise
    except ARROW_FAULTS as error:
        raise InputError(f"slot {name!r}: {type(value).__name__} is no table: {error}") from error
    raise InputError(
        f"slot {name!r}: {type(value).__name__} is not Arrow data",
        hint="pass a RecordBatch, a Table, a polars or pandas DataFrame",
    )


def _join(table: pa.Table, name: str) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    if len(batches) > 1:
        raise InputError(
            f"slot {name!r}: the table does not fit into one batch",
            hint="append it in several bundles",
        )
    if batches:
        return batches[0]
    return pa.RecordBatch.from_arrays(
        [pa.array([], type=field.type) for field in table.schema], schema=table.schema
    )


class KnownSchema(NamedTuple):
    """A schema that was found to be within the limits, and what follows from it."""

    schema: pa.Schema
    stored: pa.Schema
    """As the store keeps it: the same object, or another one without metadata."""
    fingerprint: bytes
    """Of ``stored``."""


class KnownSchemas:
    """The limits that bundles are held to, and what is known of the schemas that came last.

    Only schemas of plain types are kept: of others pyarrow's ``equals`` is not exact. Safe to use
    from several threads.
    """

    def __init__(self, limits: LimitsConfig, *, keep_metadata: bool = True) -> None:
        """Know none; without ``keep_metadata`` what is stored has none."""
        self.limits = limits
        self._keep_metadata = keep_metadata
        self._last: dict[str, tuple[KnownSchema, ...]] = {}

    def look_at(self, name: str, schema: pa.Schema) -> KnownSchema:
        """Hold a schema that came in the slot of this name to the limits; raises InputError."""
        last = self._last.get(name, ())
        for known in last:
            if known.schema.equals(schema, check_metadata=True):
                return known
        check_schema(schema, self.limits)
        stored = schema if self._keep_metadata else strip_metadata(schema)
        known = KnownSchema(schema, stored, fingerprint(stored))
        if has_plain_types(schema):
            self._last[name] = (known, *last[: _KNOWN_MAX - 1])
        return known


def resolve_bundle(
    bundle: Mapping[str, Any], slots: SlotTable, schemas: KnownSchemas
) -> dict[int, tuple[pa.RecordBatch, bytes]]:
    """Check a bundle against a slot table and the limits; give its batches by slot id, ascending.

    Each as it is to be stored, with the fingerprint of its schema. Raises InputError that names the
    slot: unknown, not Arrow, too wide, too deep, too many rows, or with values that break Arrow's
    own rules (they would be unreadable later).
    """
    found = _as_batches(bundle)
    if not found:
        raise InputError("the bundle is empty: no slot is present", hint="skip it, or fill a slot")
    batches: dict[int, tuple[pa.RecordBatch, bytes]] = {}
    ids, rows_max = slots.ids, schemas.limits.rows
    is_ascending, last_id = True, -1
    for name, batch in found.items():
        slot_id = ids.get(name)
        if slot_id is None:
            if not isinstance(name, str):
                raise InputError(f"{name!r} is no slot name", hint="the keys of a bundle are names")
            slot_id = slots[name].slot_id  # It raises, and says what slots there are.
        try:
            known = schemas.look_at(name, batch.schema)
            batch.validate(full=True)
        except InputError as error:
            raise InputError(f"slot {name!r}: {error.message}", hint=error.hint) from error
        except ARROW_FAULTS as error:
            raise InputError(f"slot {name!r}: invalid Arrow data: {error}") from error
        if batch.num_rows > rows_max:
            raise InputError(
                f"slot {name!r}: {batch.num_rows:,} rows are more than {rows_max:,}",
                hint="append it in several bundles, or raise limits.rows",
            )
        stored = batch if known.stored is known.schema else without_metadata(batch)
        batches[slot_id] = stored, known.fingerprint
        is_ascending, last_id = is_ascending and slot_id > last_id, slot_id
    return batches if is_ascending else dict(sorted(batches.items()))


def without_metadata(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Take all metadata off a batch, but for what names extension types; a view of its data."""
    bare = strip_metadata(batch.schema)
    if bare is batch.schema:
        return batch
    if not len(bare):
        return batch.replace_schema_metadata(None)
    return pa.RecordBatch.from_arrays(batch.columns, schema=bare)


def fingerprint(schema: pa.Schema) -> bytes:
    """Digest of a schema, 32 bytes: names, types, order, nullability and metadata all count.

    Equal for equal schemas: in which order the keys of metadata come does not matter.
    """
    return _fingerprint(schema.serialize().to_pybytes())


@lru_cache(maxsize=256)
def _fingerprint(serialized: bytes) -> bytes:
    schema = pa.ipc.read_schema(pa.py_buffer(serialized))
    ordered = sort_metadata(schema)
    if same_schema(ordered, schema):
        serialized = ordered.serialize().to_pybytes()
    return blake3.blake3(serialized).digest()
