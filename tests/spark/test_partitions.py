"""How chunks are shared out into partitions, and rows into batches."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quiver.scan import SegmentRef, SlotPart
from quiver.scan.plan import Piece
from quiver.segment import StreamEntry
from quiver.spark.batch import ROWS_MAX, ROWS_MIN, merge, split
from quiver.spark.partitions import plan

MIB = 1 << 20


def _piece(
    segment_seq: int, *, byte_count: int, chunks: int = 1, streams: int = 1, mask: object = None
) -> Piece:
    segment = SegmentRef(0, segment_seq, f"core_0/segments/{segment_seq}", byte_count)
    entries = tuple(
        StreamEntry(index, 1, 0, 0, byte_count // streams, chunks, chunks)
        for index in range(streams)
    )
    part = SlotPart(segment, chunks, byte_count, chunks, ("a",), pa.schema([]), entries)
    return Piece(part, None if mask is None else {0: np.array(mask, bool)})


def _chunks(partitions: list[tuple[Piece, ...]]) -> list[list[tuple[int, list[int]]]]:
    """Say of each partition which chunks of which segments it reads."""
    return [
        [
            (
                piece.part.segment.segment_seq,
                [*range(piece.part.streams[0].chunk_count)]
                if piece.chunks is None
                else np.flatnonzero(piece.chunks[0]).tolist(),
            )
            for piece in partition
        ]
        for partition in partitions
    ]


def _sizes(pieces: list[Piece], *, bytes_max: int, count_min: int = 1) -> list[list[int]]:
    planned = plan(pieces, bytes_max=bytes_max, count_min=count_min)
    return [[piece.part.segment.segment_seq for piece in pieces] for pieces in planned]


def test_small_segments_share_a_partition_in_order() -> None:
    pieces = [_piece(seq, byte_count=3 * MIB) for seq in range(6)]
    assert _sizes(pieces, bytes_max=6 * MIB) == [[0, 1], [2, 3], [4, 5]]


def test_a_large_segment_is_cut_between_chunks() -> None:
    planned = plan([_piece(0, byte_count=10 * MIB, chunks=5)], bytes_max=5 * MIB, count_min=1)
    assert _chunks(planned) == [[(0, [0, 1])], [(0, [2, 3, 4])]]


def test_what_a_filter_left_over_is_all_that_is_shared_out() -> None:
    mask = [False, True, False, True, True, False, False, True]
    pieces = [_piece(0, byte_count=16 * MIB, chunks=8, mask=mask)]
    planned = plan(pieces, bytes_max=4 * MIB, count_min=1)
    assert _chunks(planned) == [[(0, [1, 3])], [(0, [4, 7])]]


def test_neither_a_chunk_nor_a_segment_of_several_schemas_is_cut() -> None:
    assert _sizes([_piece(0, byte_count=100 * MIB)], bytes_max=MIB) == [[0]]
    mixed = _piece(0, byte_count=100 * MIB, chunks=50, streams=2)
    assert _sizes([mixed], bytes_max=10 * MIB) == [[0]]


def test_there_are_as_many_partitions_as_cores_but_no_tiny_ones() -> None:
    large = [_piece(seq, byte_count=16 * MIB) for seq in range(4)]
    assert _sizes(large, bytes_max=128 * MIB, count_min=2) == [[0, 1], [2, 3]]
    small = [_piece(seq, byte_count=MIB) for seq in range(4)]
    assert _sizes(small, bytes_max=128 * MIB, count_min=4) == [[0, 1, 2, 3]]


def test_more_partitions_than_cores_are_a_multiple_of_them_and_even() -> None:
    pieces = [_piece(seq, byte_count=30 * MIB, chunks=30) for seq in range(11)]
    planned = plan(pieces, bytes_max=128 * MIB, count_min=2)
    sizes = [sum(len(chunks) for _, chunks in partition) for partition in _chunks(planned)]
    assert sizes == [82, 83, 82, 83]


def test_a_segment_is_not_cut_for_a_sliver_of_it() -> None:
    pieces = [_piece(seq, byte_count=size * MIB, chunks=50) for seq, size in enumerate((31, 32))]
    assert _sizes(pieces, bytes_max=128 * MIB, count_min=2) == [[0], [1]]
    pieces = [_piece(seq, byte_count=size * MIB, chunks=50) for seq, size in enumerate((26, 32))]
    assert _sizes(pieces, bytes_max=128 * MIB, count_min=2) == [[0, 1], [1]]


def test_nothing_to_read_makes_no_partition() -> None:
    assert plan([], bytes_max=MIB, count_min=2) == []


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 10**9), st.integers(1, 50)), max_size=20),
    st.integers(1 << 16, 10**9),
    st.integers(1, 64),
)
def test_every_chunk_is_in_one_partition_and_the_order_is_kept(
    shapes: list[tuple[int, int]], bytes_max: int, count_min: int
) -> None:
    pieces = [
        _piece(seq, byte_count=size, chunks=chunks) for seq, (size, chunks) in enumerate(shapes)
    ]
    planned = plan(pieces, bytes_max=bytes_max, count_min=count_min)
    read = [
        (seq, chunk)
        for partition in _chunks(planned)
        for seq, chunks in partition
        for chunk in chunks
    ]
    assert read == [(seq, i) for seq, (_, chunks) in enumerate(shapes) for i in range(chunks)]
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
    batches = [pa.record_batch({"s": ["x" * (64 << 10)]}) for _ in range(20)]
    assert [batch.num_rows for batch in merge(batches)] == [8, 8, 4]
