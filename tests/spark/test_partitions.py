"""How bundles are shared out into partitions, and rows into batches."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quiver.scan import SegmentRef, SlotPart
from quiver.spark.batch import ROWS_MAX, ROWS_MIN, merge, split
from quiver.spark.partitions import plan

MIB = 1 << 20


def _part(segment_seq: int, *, byte_count: int, bundle_count: int = 1, rows: int = 1) -> SlotPart:
    segment = SegmentRef(0, segment_seq, f"core_0/segments/{segment_seq}", byte_count)
    return SlotPart(segment, rows, byte_count, bundle_count, ("a",), pa.schema([]))


def _sizes(parts: list[SlotPart], *, bytes_max: int, count_min: int = 1) -> list[list[int]]:
    planned = plan(parts, bytes_max=bytes_max, count_min=count_min)
    return [[piece.segment.segment_seq for piece in pieces] for pieces in planned]


def test_small_segments_share_a_partition_in_order() -> None:
    parts = [_part(seq, byte_count=3 * MIB) for seq in range(5)]
    assert _sizes(parts, bytes_max=7 * MIB) == [[0, 1], [2, 3], [4]]


def test_a_large_segment_is_cut_between_bundles() -> None:
    planned = plan([_part(0, byte_count=10 * MIB, bundle_count=5)], bytes_max=4 * MIB, count_min=1)
    bounds = [(piece.first, piece.stop) for pieces in planned for piece in pieces]
    assert bounds == [(0, 1), (1, 3), (3, 5)]


def test_a_bundle_larger_than_a_partition_is_not_cut() -> None:
    assert _sizes([_part(0, byte_count=100 * MIB)], bytes_max=MIB) == [[0]]


def test_there_are_as_many_partitions_as_cores_but_no_tiny_ones() -> None:
    large = [_part(seq, byte_count=16 * MIB) for seq in range(4)]
    assert _sizes(large, bytes_max=128 * MIB, count_min=2) == [[0, 1], [2, 3]]
    small = [_part(seq, byte_count=MIB) for seq in range(4)]
    assert _sizes(small, bytes_max=128 * MIB, count_min=4) == [[0, 1, 2, 3]]


def test_segments_without_the_slot_are_passed_over() -> None:
    parts = [_part(0, byte_count=0, rows=0), _part(1, byte_count=10)]
    assert _sizes(parts, bytes_max=MIB) == [[1]]
    assert _sizes(parts[:1], bytes_max=MIB) == []


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 10**9), st.integers(1, 50)), max_size=20),
    st.integers(1, 10**9),
    st.integers(1, 64),
)
def test_every_bundle_is_in_one_partition_and_the_order_is_kept(
    shapes: list[tuple[int, int]], bytes_max: int, count_min: int
) -> None:
    parts = [
        _part(seq, byte_count=size, bundle_count=bundles)
        for seq, (size, bundles) in enumerate(shapes)
    ]
    planned = plan(parts, bytes_max=bytes_max, count_min=count_min)
    read = [
        (piece.segment.segment_seq, index)
        for pieces in planned
        for piece in pieces
        for index in range(piece.first, piece.stop)
    ]
    expected = [(seq, i) for seq, (_, bundles) in enumerate(shapes) for i in range(bundles)]
    assert read == expected
    assert all(planned)


def _batch(first: int, rows: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(first, first + rows), pa.int64())})


@pytest.mark.parametrize("rows", [0, 1, ROWS_MAX, ROWS_MAX + 1, 3 * ROWS_MAX])
def test_a_batch_is_cut_into_views_of_at_most_64k_rows(rows: int) -> None:
    batch = _batch(0, rows)
    pieces = list(split(batch))
    assert sum(piece.num_rows for piece in pieces) == rows
    assert all(0 < piece.num_rows <= ROWS_MAX for piece in pieces)
    whole = batch.column("n").buffers()[1]
    assert all(piece.column("n").buffers()[1].address == whole.address for piece in pieces)


def test_wide_rows_are_cut_finer() -> None:
    batch = pa.record_batch({"s": pa.repeat("x" * MIB, 200)})
    sizes = [piece.num_rows for piece in split(batch)]
    assert sum(sizes) == 200
    assert max(sizes) <= 64


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, ROWS_MAX), max_size=12))
def test_small_batches_are_joined_in_order_and_large_ones_left_alone(sizes: list[int]) -> None:
    batches, first = [], 0
    for rows in sizes:
        batches.append(_batch(first, rows))
        first += rows
    merged = list(merge(batches))
    assert [n for batch in merged for n in batch.column("n").to_pylist()] == list(range(first))
    assert all(batch.num_rows <= ROWS_MAX for batch in merged)
    # Only before one that would not fit, and at the end, may a batch be small.
    for before, after in pairwise(merged):
        assert before.num_rows >= ROWS_MIN or before.num_rows + after.num_rows > ROWS_MAX


def test_a_large_batch_is_passed_on_without_a_copy() -> None:
    batch = _batch(0, ROWS_MIN)
    assert next(merge([batch])) is batch


def test_wide_rows_are_not_gathered_without_end() -> None:
    batches = [pa.record_batch({"s": ["x" * MIB]}) for _ in range(20)]
    assert [batch.num_rows for batch in merge(batches)] == [8, 8, 4]
