"""What is known of a schema is said of equal ones only, and limits hold all the same."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quiver.bundle import KnownSchemas, fingerprint
from quiver.config import LimitsConfig
from quiver.errors import InputError
from quiver.schemas import has_plain_types
from quiver.testing.strategies import types

LIMITS = LimitsConfig(rows=100, columns=4, nesting=3)
I64 = pa.int64()
TEXTS = pa.dictionary(pa.int8(), pa.string())

DIFFERENT = [
    pa.schema([("n", I64)]),
    pa.schema([("m", I64)]),
    pa.schema([pa.field("n", I64, nullable=False)]),
    pa.schema([pa.field("n", I64, metadata={"a": "b"})]),
    pa.schema([("n", I64)], {"a": "b"}),
    pa.schema([("n", I64)], {"a": "c"}),
    pa.schema([("n", pa.timestamp("us"))]),
    pa.schema([("n", pa.timestamp("us", "UTC"))]),
    pa.schema([("n", pa.decimal128(9, 2))]),
    pa.schema([("n", pa.decimal128(9, 3))]),
    pa.schema([("n", pa.dictionary(pa.int8(), pa.string()))]),
    pa.schema([("n", pa.dictionary(pa.int8(), pa.string(), ordered=True))]),
    pa.schema([("n", pa.dictionary(pa.int16(), pa.string()))]),
    pa.schema([("n", pa.list_(I64))]),
    pa.schema([("n", pa.list_(pa.field("x", I64)))]),
    pa.schema([("n", pa.map_(pa.string(), I64))]),
    pa.schema([("n", pa.map_(pa.field("k", pa.string(), nullable=False), I64))]),
    pa.schema([("n", pa.dictionary(pa.int8(), pa.uuid().storage_type))]),
    pa.schema([("n", pa.uuid())]),
    pa.schema([("n", pa.struct([pa.field("x", I64, metadata={"a": "b"})]))]),
    pa.schema([("n", pa.struct([("x", I64)]))]),
    pa.schema([("n", pa.struct([("y", I64)]))]),
    pa.schema([("n", pa.struct([pa.field("x", I64, nullable=False)]))]),
    pa.schema([("n", pa.struct([("x", I64), ("y", TEXTS)]))]),
    pa.schema([("n", pa.struct([("y", TEXTS), ("x", I64)]))]),
    pa.schema([("n", pa.struct([("x", I64), ("y", pa.dictionary(pa.int16(), pa.string()))]))]),
    pa.schema([("n", pa.struct([("x", I64), ("y", pa.dictionary(pa.int8(), pa.binary()))]))]),
    pa.schema([("n", pa.struct([("x", I64), ("y", pa.struct([("y", TEXTS)]))]))]),
    pa.schema([("n", pa.struct([("x", I64), ("y", pa.struct([("z", TEXTS)]))]))]),
    pa.schema([("n", pa.struct([("x", pa.dictionary(pa.int8(), pa.list_(pa.uuid())))]))]),
    pa.schema([("n", pa.struct([("x", pa.dictionary(pa.int16(), pa.list_(pa.uuid())))]))]),
]


def test_no_schema_gets_what_was_found_of_another() -> None:
    schemas = KnownSchemas(LimitsConfig())
    for _ in range(2):
        for schema in DIFFERENT:
            for _ in range(2):
                assert schemas.look_at("a", schema).fingerprint == fingerprint(schema)


def test_what_comes_again_is_known() -> None:
    schemas = KnownSchemas(LIMITS)
    known = schemas.look_at("a", DIFFERENT[0])
    assert schemas.look_at("a", pa.schema([("n", pa.int64())])) is known
    assert schemas.look_at("b", DIFFERENT[0]) is not known
    known = schemas.look_at("a", pa.schema([("n", pa.struct([("x", TEXTS)]))]))
    assert schemas.look_at("a", pa.schema([("n", pa.struct([("x", TEXTS)]))])) is known
    known = schemas.look_at("a", pa.schema([("n", pa.list_(I64))]))
    assert schemas.look_at("a", pa.schema([("n", pa.list_(I64))])) is not known


@settings(max_examples=100, deadline=None)
@given(one=types(), other=types(), same=st.booleans())
def test_equals_says_all_there_is_of_plain_types(one: Any, other: Any, *, same: bool) -> None:
    one = pa.schema([("n", pa.struct([("x", one)]))])
    other = (
        pa.ipc.read_schema(one.serialize())
        if same
        else pa.schema([("n", pa.struct([("x", other)]))])
    )
    if has_plain_types(one):
        assert one.equals(other, check_metadata=True) == (fingerprint(one) == fingerprint(other))


def test_metadata_is_taken_off_for_those_that_are_known_too() -> None:
    schemas = KnownSchemas(LIMITS, keep_metadata=False)
    for _ in range(2):
        known = schemas.look_at("a", DIFFERENT[4])
        assert known.stored.equals(DIFFERENT[0], check_metadata=True)
        assert known.fingerprint == fingerprint(DIFFERENT[0])


def test_limits_hold_each_time() -> None:
    schemas = KnownSchemas(LIMITS)
    wide = pa.schema([(str(n), I64) for n in range(5)])
    for _ in range(2):
        with pytest.raises(InputError, match="more than 4 columns"):
            schemas.look_at("a", wide)
