"""Equality of types that pyarrow's own gets wrong: dictionaries and runs around extensions."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings

from quiver.schemas import same_schema, same_schema_as, same_type
from quiver.testing.strategies import types

UUIDS = pa.list_(pa.uuid())
MANY_UUIDS = pa.large_list(pa.uuid())


class Unit(pa.ExtensionType):
    """As users write them: without an ``__eq__``, of which few know that it is needed."""

    def __init__(self, unit, storage=None):
        self.unit = unit
        super().__init__(storage or pa.int64(), "test.unit")

    def __arrow_ext_serialize__(self):
        return self.unit.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, serialized):
        return cls(serialized.decode(), storage)


def a_map(*, nullable, **metadata):
    value = pa.field("value", pa.string(), nullable=nullable, metadata=metadata or None)
    return pa.map_(pa.field("key", pa.uuid(), nullable=False), value)


def structs(*, nullable=True, **metadata):
    return Unit("m", pa.struct([pa.field("a", pa.int8(), nullable, metadata or None)]))


DIFFERENT = [
    (pa.dictionary(pa.int8(), UUIDS), pa.dictionary(pa.int32(), UUIDS)),
    (pa.dictionary(pa.int8(), UUIDS), pa.dictionary(pa.int8(), MANY_UUIDS)),
    (pa.run_end_encoded(pa.int32(), UUIDS), pa.run_end_encoded(pa.int32(), MANY_UUIDS)),
    (pa.run_end_encoded(pa.int32(), pa.uuid()), pa.run_end_encoded(pa.int32(), pa.bool8())),
    (
        pa.struct([pa.field("a", pa.dictionary(pa.int8(), UUIDS))]),
        pa.struct([pa.field("a", pa.dictionary(pa.int32(), UUIDS))]),
    ),
    (Unit("m"), Unit("ft")),
    (pa.list_(Unit("m")), pa.list_(Unit("ft"))),
    (a_map(nullable=True), a_map(nullable=False)),
    (pa.struct([("a", a_map(nullable=True))]), pa.struct([("a", a_map(nullable=False))])),
    (structs(), structs(nullable=False)),
    (pa.int8(), pa.int16()),
    (pa.list_(pa.int8()), pa.list_(pa.int16())),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_types_that_differ_anywhere_are_not_the_same(one, other):
    assert not same_type(one, other)
    assert not same_schema(pa.schema([("a", one)]), pa.schema([("a", other)]))
    assert same_type(one, one)
    assert same_schema(pa.schema([("a", other)]), pa.schema([("a", other)]))
    is_alike = same_schema_as(pa.schema([("a", one)]))
    assert not is_alike(pa.schema([("a", other)]))
    assert is_alike(pa.schema([("a", one)]))


def test_pyarrow_does_not_see_these_differences_yet():
    """When this fails, ``same_type`` may be what pyarrow does, and go."""
    assert all(one.equals(other) for one, other in DIFFERENT[:9])


def test_metadata_counts_inside_of_extension_types_as_well():
    for one, other in [
        (structs(), structs(a="b")),
        (a_map(nullable=True, a="b"), a_map(nullable=True, a="c")),
    ]:
        assert same_type(one, other)
        assert not same_type(one, other, check_metadata=True)
        assert not same_schema(pa.schema([("a", one)]), pa.schema([("a", other)]))
        assert same_schema(pa.schema([("a", one)]), pa.schema([("a", one)]))


def test_metadata_of_schemas_counts():
    schema = pa.schema([("a", pa.int8())])
    assert not same_schema(schema, schema.with_metadata({"a": "b"}))
    assert not same_schema_as(schema)(schema.with_metadata({"a": "b"}))


@settings(max_examples=200, deadline=None)
@given(types())
def test_a_type_that_was_written_and_read_is_the_same(kind):
    written = pa.schema([("a", kind)]).serialize()
    assert same_type(pa.ipc.read_schema(written).field(0).type, kind)
