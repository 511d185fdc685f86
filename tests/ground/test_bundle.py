"""A bundle takes what speaks Arrow, refuses the rest by slot name, and has exact fingerprints."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from quiver.bundle import (
    KnownSchemas,
    RecordBundle,
    as_record_batch,
    fingerprint,
    resolve_bundle,
)
from quiver.config import LimitsConfig
from quiver.errors import InputError
from quiver.slots import SlotTable

SLOTS = SlotTable.of({"logs": 3, "spans": 1})
LIMITS = LimitsConfig(rows=100, columns=10, nesting=4)
BATCH = pa.record_batch({"n": [1, 2, 3]})


def resolve(bundle) -> dict[int, pa.RecordBatch]:
    found = resolve_bundle(bundle, SLOTS, KnownSchemas(LIMITS))
    return {slot_id: batch for slot_id, (batch, _) in found.items()}


def test_batches_come_out_by_slot_id_and_uncopied() -> None:
    batches = resolve({"logs": BATCH, "spans": BATCH.slice(1)})
    assert list(batches) == [1, 3]
    assert batches[3] is BATCH


@pytest.mark.parametrize(
    "value",
    [
        BATCH.to_pandas(),
        pa.table({"n": [1, 2, 3]}),
        pa.concat_tables([pa.table({"n": [1]}), pa.table({"n": [2, 3]})]),
        pl.DataFrame({"n": [1, 2, 3]}),
        pd.DataFrame({"n": [1, 2, 3]}),
        pa.table({"n": [1, 2, 3]}).to_reader(),
        BATCH.to_struct_array(),
    ],
    ids=["pandas", "table", "chunked", "polars", "frame", "reader", "struct"],
)
def test_anything_that_speaks_arrow_becomes_one_batch(value) -> None:
    assert as_record_batch(value, "logs").to_pydict() == {"n": [1, 2, 3]}


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"n": pa.array([], pa.int64())}),
        pa.table({"d": pa.array([], pa.dictionary(pa.int8(), pa.string()))}),
        pa.schema([("s", pa.struct([("x", pa.string())])), ("n", pa.null())]).empty_table(),
        pa.table({}),
    ],
    ids=["plain", "dictionary", "nested", "no columns"],
)
def test_a_table_without_rows_keeps_its_schema(table: pa.Table) -> None:
    batch = as_record_batch(table, "logs")
    assert batch.num_rows == 0
    assert batch.schema.equals(table.schema, check_metadata=True)


def test_rows_without_columns_are_kept() -> None:
    batch = BATCH.select([])
    assert resolve({"logs": batch})[3].num_rows == 3


@pytest.mark.parametrize("value", [5, "text", [1, 2], {"n": [1]}, object(), b"bytes"], ids=type)
def test_what_is_not_arrow_is_refused_by_slot_name(value) -> None:
    with pytest.raises(InputError, match=f"slot 'logs': {type(value).__name__} is not Arrow data"):
        resolve({"logs": value})


def test_an_array_that_is_no_table_is_refused() -> None:
    with pytest.raises(InputError, match="slot 'logs': Int64Array is no table"):
        resolve({"logs": pa.array([1])})


@pytest.mark.parametrize("bundle", [None, [], "logs", 3, BATCH], ids=type)
def test_what_is_no_mapping_is_refused_with_an_example(bundle) -> None:
    with pytest.raises(InputError, match="a bundle is a mapping"):
        resolve(bundle)


@pytest.mark.parametrize("bundle", [{}, {"logs": None}])
def test_an_empty_bundle_is_refused(bundle) -> None:
    with pytest.raises(InputError, match="the bundle is empty"):
        resolve(bundle)


def test_an_absent_slot_is_simply_not_there() -> None:
    bundle = RecordBundle({"logs": BATCH, "spans": None})
    assert list(bundle) == ["logs"]
    assert len(bundle) == 1
    assert "spans" not in bundle
    with pytest.raises(KeyError):
        bundle["spans"]
    assert repr(bundle) == "RecordBundle(logs: 3 rows)"


def test_an_unknown_slot_is_refused_and_the_known_are_listed() -> None:
    with pytest.raises(InputError, match=r"no slot 'log' .*logs"):
        resolve({"log": BATCH})


def test_too_many_rows_columns_and_levels_are_refused() -> None:
    with pytest.raises(InputError, match="slot 'logs': 101 rows are more than 100"):
        resolve({"logs": pa.record_batch({"n": list(range(101))})})
    with pytest.raises(InputError, match="slot 'logs': a schema has more than 10 columns"):
        resolve({"logs": pa.record_batch({f"c{i}": [1] for i in range(11)})})
    deep = pa.int8()
    for _ in range(4):
        deep = pa.list_(deep)
    with pytest.raises(InputError, match="slot 'logs': a column nests deeper than 4 levels"):
        resolve({"logs": pa.record_batch({"d": pa.nulls(1, deep)})})
    resolve({"logs": pa.record_batch({"d": pa.nulls(1, deep.value_type)})})


def test_children_count_as_columns() -> None:
    wide = pa.struct([(f"f{i}", pa.int8()) for i in range(10)])
    with pytest.raises(InputError, match="more than 10 columns"):
        resolve({"logs": pa.record_batch({"s": pa.nulls(1, wide)})})


def test_values_that_break_arrows_rules_are_refused_before_anything_is_written() -> None:
    text, offsets = pa.py_buffer(b"\xff"), pa.py_buffer(b"\0\0\0\0\1\0\0\0")
    bad = pa.Array.from_buffers(pa.string(), 1, [None, offsets, text])
    with pytest.raises(InputError, match="slot 'logs': invalid Arrow data"):
        resolve({"logs": pa.RecordBatch.from_arrays([bad], ["s"])})


def test_bundles_are_equal_by_slots_schemas_and_values() -> None:
    bundle = RecordBundle({"logs": BATCH})
    assert bundle.equals(RecordBundle({"logs": pa.record_batch({"n": [1, 2, 3]})}))
    for other in (
        {"spans": BATCH},
        {"logs": BATCH, "spans": BATCH},
        {"logs": BATCH.slice(1)},
        {"logs": BATCH.replace_schema_metadata({"a": "b"})},
        {"logs": BATCH.cast(pa.schema([("n", pa.int32())]))},
    ):
        assert not bundle.equals(RecordBundle(other))


def test_the_fingerprint_covers_names_types_order_nullability_and_metadata() -> None:
    base = pa.schema([("a", pa.int64()), ("b", pa.string())])
    same = pa.schema([pa.field("a", pa.int64()), pa.field("b", pa.string())])
    assert fingerprint(base) == fingerprint(same)
    assert len(fingerprint(base)) == 32
    different = [
        base,
        pa.schema([("x", pa.int64()), ("b", pa.string())]),
        pa.schema([("a", pa.int32()), ("b", pa.string())]),
        pa.schema([("b", pa.string()), ("a", pa.int64())]),
        pa.schema([pa.field("a", pa.int64(), nullable=False), ("b", pa.string())]),
        base.with_metadata({"k": "v"}),
        pa.schema([pa.field("a", pa.int64(), metadata={"k": "v"}), ("b", pa.string())]),
        pa.schema([("a", pa.int64())]),
        pa.schema([("a", pa.int64()), ("b", pa.dictionary(pa.int8(), pa.string()))]),
        pa.schema([("a", pa.int64()), ("b", pa.dictionary(pa.int16(), pa.string()))]),
    ]
    assert len({fingerprint(schema) for schema in different}) == len(different)
