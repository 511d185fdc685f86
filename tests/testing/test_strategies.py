"""What the strategies draw is valid, comes back from bytes unchanged, and shows its variety."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, find, given, settings

from quiver.bundle import RecordBundle, resolve_bundle
from quiver.config import LimitsConfig
from quiver.ipc import decode_stream, encode_stream
from quiver.slots import SlotTable
from quiver.testing.strategies import bundles, record_batches, schemas

SLOTS = ["logs", "spans", "metrics"]
FEW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@FEW
@given(record_batches())
def test_batches_survive_a_round_trip_through_bytes(batch: pa.RecordBatch) -> None:
    decoded = decode_stream(encode_stream(batch), rows=batch.num_rows)
    assert decoded.schema.equals(batch.schema, check_metadata=True)
    assert decoded.equals(batch)


@FEW
@given(bundles(SLOTS))
def test_bundles_are_taken_by_a_store_of_their_slots(bundle: dict[str, pa.RecordBatch]) -> None:
    batches = resolve_bundle(bundle, SlotTable.of(SLOTS), LimitsConfig())
    assert len(batches) == len(bundle)
    assert RecordBundle(bundle).equals(RecordBundle(bundle))


@pytest.mark.parametrize(
    "wanted",
    [
        pa.types.is_dictionary,
        pa.types.is_list,
        pa.types.is_struct,
        pa.types.is_map,
        pa.types.is_null,
        pa.types.is_timestamp,
    ],
    ids=lambda wanted: wanted.__name__,
)
def test_the_zoo_has_this_kind_of_column(wanted) -> None:
    assert len(find(schemas(), lambda schema: any(wanted(field.type) for field in schema)))


def test_nulls_and_batches_without_rows_are_drawn() -> None:
    assert find(record_batches(), lambda batch: any(c.null_count for c in batch.columns)).num_rows
    assert find(record_batches(), lambda b: b.num_rows == 0 and b.num_columns > 1).num_rows == 0
