"""A scan that includes what is not finalized yet: rows of the log, behind those of the segments."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import quiver
from quiver.errors import InputError, MissingError
from quiver.scan import Extent
from quiver.testing import ManualClock


@pytest.fixture
def store(tmp_path):
    clock = ManualClock(wall_ns=10**9)
    with quiver.open(tmp_path, slots=["rows", "other"], worker=False, clock=clock) as opened:
        for n in range(3):
            opened.append({"rows": pa.table({"n": [n], "s": [f"{n}"]})})
            clock.step("1s")
        opened.finalize()
        for n in range(3, 6):
            opened.append({"rows": pa.table({"n": [float(n)]})})
            clock.step("1s")
        opened.append({"other": pa.table({"x": [1]})})
        yield opened


def test_open_bundles_come_behind_the_segments_under_the_common_schema(tmp_path, store):
    assert quiver.scan(tmp_path, slot="rows").count_rows() == 3
    scan = quiver.scan(tmp_path, slot="rows", include_open=True)
    assert scan.schema == pa.schema([("n", pa.float64()), ("s", pa.string())])
    for table in (
        scan.to_table(),
        scan.to_reader().read_all(),
        pickle.loads(pickle.dumps(scan)).to_table(),
    ):
        assert table["n"].to_pylist() == [0, 1, 2, 3, 4, 5]
        assert table["s"].to_pylist() == ["0", "1", "2", None, None, None]
    assert scan.count_rows() == 6
    assert scan.extent == Extent(1, 1, 6, 6)
    assert "3 open bundles" in repr(scan)


def test_a_scan_with_open_bundles_stays_what_it_was_and_refresh_takes_the_new_ones(tmp_path, store):
    scan = quiver.scan(tmp_path, slot="rows", include_open=True)
    store.finalize()
    store.append({"rows": pa.table({"n": [6.0]})})
    assert scan.count_rows() == scan.to_table().num_rows == 6
    again = scan.refresh()
    assert again.to_table()["n"].to_pylist() == [0, 1, 2, 3, 4, 5, 6]
    assert (len(again.segments), len(again.open_bundles)) == (2, 1)


def test_filters_hold_for_open_bundles_too(tmp_path, store):
    scan = quiver.scan(tmp_path, slot="rows", include_open=True)
    assert scan.select(where=pc.field("n") >= 2).to_table()["n"].to_pylist() == [2, 3, 4, 5]
    assert scan.select(columns=["s"], where=pc.field("n") == 4).to_table().to_pydict() == {
        "s": [None]
    }
    late = quiver.scan(
        tmp_path, slot="rows", include_open=True, ingestion_time=(3 * 10**9, 5 * 10**9)
    )
    assert late.to_table()["n"].to_pylist() == [2, 3]
    assert late.count_rows() == 2
    assert late.skipped == Extent(0, 0, 4, 4)


def test_a_slot_that_is_only_in_the_log_has_rows(tmp_path, store):
    with pytest.raises(MissingError, match="no finalized segment") as caught:
        quiver.scan(tmp_path, slot="other").to_table()
    assert "include_open=True" in caught.value.hint
    scan = quiver.scan(tmp_path, slot="other", include_open=True)
    assert scan.to_table().to_pydict() == {"x": [1]}
    assert scan.select(columns=["x"]).schema.names == ["x"]
    with pytest.raises(InputError, match="no column 'y'"):
        scan.select(columns=["y"]).to_table()


def test_one_segment_or_the_log_alone_can_be_read_under_the_whole_schema(tmp_path, store):
    scan = quiver.scan(tmp_path, slot="rows", include_open=True)
    (segment,) = scan.segments
    one, rest = scan.only(segment), scan.only(None)
    assert one.schema == rest.schema == scan.schema
    assert one.to_table()["n"].to_pylist() == [0, 1, 2]
    assert rest.to_table()["n"].to_pylist() == [3, 4, 5]


def test_include_open_is_yes_or_no(tmp_path, store):
    with pytest.raises(InputError, match="include_open"):
        quiver.scan(tmp_path, slot="rows", include_open="yes")
