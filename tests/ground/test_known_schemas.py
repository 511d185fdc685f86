"""What is known of a schema is said of equal ones only, and limits hold all the same."""

from __future__ import annotations

import pyarrow as pa
import pytest

from quiver.bundle import KnownSchemas, fingerprint
from quiver.config import LimitsConfig
from quiver.errors import InputError

LIMITS = LimitsConfig(rows=100, columns=4, nesting=3)
I64 = pa.int64()

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
]


def test_no_schema_gets_what_was_found_of_another() -> None:
    schemas = KnownSchemas(LIMITS)
    for _ in range(2):
        for schema in DIFFERENT:
            for _ in range(2):
                assert schemas.look_at("a", schema).fingerprint == fingerprint(schema)


def test_what_comes_again_is_known() -> None:
    schemas = KnownSchemas(LIMITS)
    known = schemas.look_at("a", DIFFERENT[0])
    assert schemas.look_at("a", pa.schema([("n", pa.int64())])) is known
    assert schemas.look_at("b", DIFFERENT[0]) is not known


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
