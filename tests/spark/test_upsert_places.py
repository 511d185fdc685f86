"""What orders commands that come from Quiver: time between cores, places within one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from quiver.spark.upsert.places import ORDER, with_order


def rows(*places: tuple[int, int, int, int], times: list[int | None], store: str = "s") -> pa.Table:
    core, segment, bundle, row = zip(*places, strict=True)
    return pa.table(
        {
            "_store_id": pa.array([store] * len(places), pa.string()),
            "_core": pa.array(core, pa.int32()),
            "_segment_seq": pa.array(segment, pa.int64()),
            "_bundle_index": pa.array(bundle, pa.int64()),
            "_row_index": pa.array(row, pa.int64()),
            "_ingestion_time": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )


def order_of(table: pa.Table) -> list[tuple[int, ...]]:
    found = with_order(table)
    return list(zip(*(found.column(name).to_pylist() for name in ORDER), strict=True))


def test_rows_of_a_core_are_ordered_by_their_place_also_where_the_clock_went_back() -> None:
    places = [(0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 1, 0), (0, 1, 0, 0), (0, 1, 1, 0)]
    found = order_of(rows(*places, times=[50, 50, 40, 45, 60]))
    assert found == sorted(found)
    assert len(set(found)) == len(found)
    assert [time for time, *_ in found] == [50, 50, 50, 50, 60]


def test_between_cores_time_tells() -> None:
    older, newer = order_of(rows((7, 9, 9, 9), (0, 0, 0, 0), times=[10, 20]))
    assert older < newer


def test_the_clock_of_one_core_does_not_hold_up_another(monkeypatch) -> None:
    one = rows((0, 0, 0, 0), (1, 0, 1, 0), times=[90, 20])
    assert [time for time, *_ in order_of(one)] == [90, 20]
    two = pa.concat_tables(
        [rows((0, 0, 0, 0), times=[90], store="s"), rows((0, 0, 1, 0), times=[20], store="t")]
    )
    assert [time for time, *_ in order_of(two)] == [90, 20]


def test_rows_in_any_order_are_ordered_alike() -> None:
    rng = np.random.default_rng(3)
    places = [(c, s, b, r) for c in range(2) for s in range(3) for b in range(3) for r in range(2)]
    times = [int(rng.integers(100)) for _ in range(18)]
    table = rows(*places, times=[times[at // 2] for at in range(36)])
    shuffled = rng.permutation(36)
    straight, mixed = order_of(table), order_of(table.take(shuffled))
    assert [straight[at] for at in shuffled] == mixed


@pytest.mark.parametrize("kind", [pa.int64(), pa.timestamp("us", "UTC")])
def test_times_may_be_numbers_and_may_be_missing(kind: pa.DataType) -> None:
    table = rows((0, 0, 0, 0), (0, 0, 1, 0), times=[None, None])
    at = table.schema.get_field_index("_ingestion_time")
    table = table.set_column(at, "_ingestion_time", pa.array([None, None], kind))
    assert [time for time, *_ in order_of(table)] == [0, 0]
    assert order_of(table.slice(2)) == []
