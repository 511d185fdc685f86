"""What a scan reads of a cold store, seen from the page cache."""

from __future__ import annotations

from pathlib import Path

import pytest

import quiver
from bench.segment.pages import drop, segment_files, touched
from bench.segment.scans import cold_read, one_column, wide_store

SHAPES = {"many bundles": (1000, 50), "one large bundle": (50_000, 1)}


@pytest.fixture(params=SHAPES.values(), ids=SHAPES)
def cold(request, tmp_path: Path) -> tuple[Path, int]:
    """A store of 16 MB that is on the disk alone: one segment of 40 columns; and its rows."""
    rows, bundles = request.param
    wide_store(tmp_path / "store", rows=rows, bundles=bundles)
    files = segment_files(tmp_path / "store")
    drop(files)
    if touched(files):
        pytest.skip("this file system keeps everything in memory")
    return tmp_path / "store", rows * bundles


def test_one_column_of_forty_touches_a_tenth_of_the_bytes(cold):
    store, rows = cold
    share, table = one_column(store)
    assert table.column_names == ["c7"]
    assert table["c7"].to_pylist() == list(range(7, rows + 7))
    assert 1 / 40 <= share <= 0.1


def test_all_columns_touch_all_of_it(cold):
    store, rows = cold
    share, table = cold_read(store, lambda scan: scan.to_table())
    assert (table.num_rows, table.num_columns) == (rows, 40)
    assert share > 0.95


def test_schema_and_number_of_rows_touch_next_to_nothing(cold):
    store, rows = cold
    share, seen = cold_read(store, lambda scan: (len(scan.schema), scan.count_rows()))
    assert seen == (40, rows)
    assert 0 < share < 0.05


def test_opening_for_writing_touches_the_end_alone(cold):
    store, _ = cold
    with quiver.open(store, worker=False) as opened:
        assert opened.info().segments == 1
        assert 0 < touched(segment_files(store)) < 0.01
