"""What the strategies draw is valid, comes back from bytes unchanged, and shows its variety."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings

from quiver.bundle import KnownSchemas, resolve_bundle
from quiver.config import LimitsConfig
from quiver.ipc import decode_stream, encode_stream
from quiver.slots import SlotTable
from quiver.testing.same import difference
from quiver.testing.strategies import bundles, record_batches, schemas

SLOTS = ["logs", "spans", "metrics"]
FEW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


AS_DRAWN = settings(FEW, max_examples=1000, phases=[Phase.generate], database=None)
"""To find something it need not be made small, which takes its time."""


@FEW
@given(record_batches())
def test_batches_survive_a_round_trip_through_bytes(batch: pa.RecordBatch) -> None:
    decoded = decode_stream(encode_stream(batch), rows=batch.num_rows)
    assert difference(batch, decoded) is None


@FEW
@given(bundles(SLOTS))
def test_bundles_are_taken_by_a_store_of_their_slots(bundle: dict[str, pa.RecordBatch]) -> None:
    batches = resolve_bundle(bundle, SlotTable.of(SLOTS), KnownSchemas(LimitsConfig()))
    assert len(batches) == len(bundle)
    assert all(batches[SLOTS.index(name)][0] is batch for name, batch in bundle.items())


@pytest.mark.parametrize(
    "wanted",
    [
        pa.types.is_dictionary,
        pa.types.is_list,
        pa.types.is_struct,
        pa.types.is_map,
        pa.types.is_null,
        pa.types.is_timestamp,
        pa.types.is_union,
        pa.types.is_run_end_encoded,
        pa.types.is_list_view,
        lambda kind: isinstance(kind, pa.BaseExtensionType),
    ],
    ids=lambda wanted: wanted.__name__,
)
def test_the_zoo_has_this_kind_of_column(wanted) -> None:
    holds = lambda schema: any(wanted(field.type) for field in schema)
    assert len(find(schemas(), holds, settings=AS_DRAWN))


def test_nulls_and_batches_without_rows_are_drawn() -> None:
    nulls = lambda batch: any(column.null_count for column in batch.columns)
    assert find(record_batches(), nulls, settings=AS_DRAWN).num_rows
    empty = lambda batch: batch.num_rows == 0 and batch.num_columns > 1
    assert find(record_batches(), empty, settings=AS_DRAWN).num_rows == 0


ONE = pa.record_batch({"x": pa.array([0.0, 1.5, None]), "d": pa.array(["a", None, "a"])})
NAN = pa.array([0x7FF8000000000001, 0x7FF8000000000002], pa.uint64()).view(pa.float64())


@pytest.mark.parametrize(
    "other",
    [
        ONE.slice(1),
        ONE.replace_schema_metadata({"k": "v"}),
        ONE.set_column(0, "x", pa.array([-0.0, 1.5, None])),
        ONE.set_column(0, "x", pa.array([0.0, 1.5, 0.0])),
        ONE.set_column(0, pa.field("x", pa.float64(), metadata={"k": "v"}), ONE.column(0)),
        ONE.set_column(1, "d", ONE.column(1).dictionary_encode()),
    ],
    ids=["rows", "metadata", "zero", "null", "field", "type"],
)
def test_any_difference_is_told(other) -> None:
    assert difference(ONE, ONE) is None
    assert difference(ONE, other)


def test_two_nans_are_the_same_only_bit_by_bit() -> None:
    one, other = (pa.record_batch({"x": NAN[i : i + 1]}) for i in (0, 1))
    assert difference(one, one) is None
    assert difference(one, other)


def test_layout_is_no_difference() -> None:
    indices = pa.array([1, None, 1], pa.int32())
    again = pa.DictionaryArray.from_arrays(indices, pa.array(["unused", "a"]))
    one = ONE.set_column(1, "d", ONE.column(1).dictionary_encode())
    assert difference(one, one.set_column(1, "d", again)) is None
