"""Equal fingerprints mean equal schemas, and the other way round."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings

from quiver.bundle import fingerprint, without_metadata
from quiver.ipc import decode_stream, encode_stream
from quiver.schemas import change_children, sort_metadata, strip_metadata
from quiver.testing.same import plain
from quiver.testing.strategies import record_batches, schemas, types
from tests.kit.every_type import TYPES, column

MANY = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ],
)


def turned(metadata: Any) -> Any:
    return dict(reversed(metadata.items())) if metadata else metadata


def turned_field(field: Any) -> Any:
    kind = change_children(field.type, turned_field)
    return pa.field(field.name, kind, field.nullable, turned(field.metadata))


def changes(schema: pa.Schema, kind: pa.DataType) -> list[pa.Schema]:
    """Every small change of a schema: of one field, of their order and number, of metadata."""
    found = [
        schema.append(pa.field("one more", pa.int8())),
        schema.with_metadata({**(schema.metadata or {}), "key of ours": "1"}),
    ]
    for place, field in enumerate(schema):
        found += [
            schema.remove(place),
            schema.set(place, field.with_name(field.name + "!")),
            schema.set(place, field.with_nullable(not field.nullable)),
            schema.set(place, field.with_metadata({**(field.metadata or {}), "ours": ""})),
            schema.set(place, field.with_type(pa.list_(field.with_name("inside")))),
            schema.set(place, field.with_type(kind)),
        ]
    found.append(pa.schema(list(reversed(list(schema))), metadata=schema.metadata))
    return [each for each in found if not each.equals(schema, check_metadata=True)]


@MANY
@given(schemas(), types())
def test_any_change_of_a_schema_changes_its_fingerprint(schema, kind):
    prints = {fingerprint(schema)}
    for changed in changes(schema, kind):
        assert fingerprint(changed) not in prints


@MANY
@given(schemas())
def test_equal_schemas_have_equal_fingerprints(schema):
    other = pa.schema([turned_field(field) for field in schema], turned(schema.metadata))
    assume(other.equals(schema, check_metadata=True))
    assert fingerprint(other) == fingerprint(schema)
    again = pa.ipc.read_schema(schema.serialize())
    assert fingerprint(again) == fingerprint(schema)
    assert sort_metadata(schema).equals(schema, check_metadata=True)


def test_the_order_of_metadata_keys_does_not_matter_at_any_depth():
    def schema(*keys: str) -> pa.Schema:
        metadata = {key: key for key in keys}
        inner = pa.list_(pa.field("x", pa.int8(), metadata=metadata))
        fields = [pa.field("a", pa.struct([pa.field("b", inner, metadata=metadata)]))]
        fields.append(pa.field("d", pa.dictionary(pa.int8(), inner)))
        return pa.schema(fields, metadata=metadata)

    assert schema("k", "l").serialize() != schema("l", "k").serialize()
    assert fingerprint(schema("k", "l")) == fingerprint(schema("l", "k"))
    assert fingerprint(schema("k", "l")) != fingerprint(schema("k"))
    assert fingerprint(pa.schema([], metadata={})) == fingerprint(pa.schema([]))


def test_metadata_below_a_dictionary_counts_although_pyarrow_passes_over_it():
    one, other = (
        pa.schema([("d", pa.dictionary(pa.int8(), pa.list_(pa.field("x", pa.int8(), metadata=m))))])
        for m in ({"k": "l"}, None)
    )
    assert one.equals(other, check_metadata=True)
    assert fingerprint(one) != fingerprint(other)


def no_metadata(field: Any) -> bool:
    keys = set(field.metadata or {})
    if isinstance(field.type, pa.BaseExtensionType):
        return not keys
    seen = []
    change_children(field.type, lambda child: seen.append(no_metadata(child)) or child)
    return keys <= {b"ARROW:extension:name", b"ARROW:extension:metadata"} and all(seen)


@MANY
@given(record_batches(rows_max=3))
def test_dropped_metadata_is_gone_at_every_depth_and_nothing_else_is(batch):
    bare = without_metadata(batch)
    stored = decode_stream(encode_stream(bare))
    assert not stored.schema.metadata
    assert all(no_metadata(field) for field in stored.schema)
    assert stored.schema.equals(batch.schema, check_metadata=False)
    assert stored.num_rows == batch.num_rows
    assert [plain(c) for c in stored.columns] == [plain(c) for c in batch.columns]
    assert fingerprint(bare.schema) == fingerprint(stored.schema)


@pytest.mark.parametrize("kind", TYPES, ids=range(len(TYPES)))
def test_types_are_taken_apart_and_put_together_as_they_were(kind):
    def renewed(field: Any) -> Any:
        return pa.field(field.name, change_children(field.type, renewed), field.nullable)

    assert change_children(kind, renewed).equals(kind, check_metadata=True)
    assert change_children(kind, lambda field: field) is kind
    batch = pa.record_batch([column(kind, 1)], ["c"])
    assert strip_metadata(batch.schema) is batch.schema


def test_what_names_an_extension_type_is_not_dropped():
    names = {"ARROW:extension:name": "some.type", "ARROW:extension:metadata": "m"}
    field = pa.field("c", pa.int8(), metadata={**names, "batch": "17"})
    bare = strip_metadata(pa.schema([field], metadata={"batch": "17"}))
    assert bare.metadata is None
    assert bare.field(0).metadata == {key.encode(): value.encode() for key, value in names.items()}
