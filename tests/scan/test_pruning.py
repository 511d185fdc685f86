"""A filter gives the rows that it gives on the whole table, and what it can tell is never read."""

from __future__ import annotations

import math
import tempfile
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import quiver
from quiver.errors import InputError
from quiver.scan import Extent
from quiver.testing import ManualClock

FIELD = pc.field


def fill(path, *bundles, slots=("rows",), segments=1, clock=None):
    """Write bundles, evenly into segments; each is a table of the first slot."""
    more = {} if clock is None else {"clock": clock}
    with quiver.open(path, slots=slots, worker=False, **more) as store:
        each = -(-len(bundles) // segments)
        for start in range(0, len(bundles), each):
            for bundle in bundles[start : start + each]:
                store.append({"rows": bundle})
                if clock is not None:
                    clock.step("1s")
            store.finalize()
    return path


def numbers(*ranges, kind=None):
    return [pa.table({"n": pa.array(list(values), kind or pa.int64())}) for values in ranges]


def test_segments_streams_and_chunks_that_cannot_match_are_left_out(tmp_path):
    bundles = numbers(*(range(start, start + 10) for start in range(0, 100, 10)))
    fill(tmp_path, *bundles, segments=2)
    scan = quiver.scan(tmp_path, slot="rows", where=FIELD("n") == 73)
    assert scan.to_table()["n"].to_pylist() == [73]
    assert scan.count_rows() == 1
    assert scan.extent == Extent(segments=2, streams=2, chunks=10, rows=100)
    assert scan.skipped == Extent(segments=1, streams=1, chunks=9, rows=90)


def test_nothing_is_left_out_of_a_segment_whose_every_chunk_may_match(tmp_path):
    fill(tmp_path, *numbers([1, 9], [2, 8]))
    scan = quiver.scan(tmp_path, slot="rows", where=FIELD("n") == 5)
    assert scan.to_table().num_rows == 0
    assert scan.skipped == Extent()


NAN = math.nan
DAY = datetime(2013, 7, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "low,high,wanted",
    [
        (pa.array([1, 2], pa.int8()), pa.array([5, None], pa.int8()), FIELD("n") > 3),
        (pa.array([1, 2], pa.uint64()), pa.array([2**63], pa.uint64()),
         FIELD("n") > pa.scalar(3, pa.uint64())),
        (pa.array([0.5, None]), pa.array([7.5]), FIELD("n") >= 7.5),
        (pa.array([False, None]), pa.array([True]), FIELD("n")),
        (pa.array([b"a"]).dictionary_encode(), pa.array([b"x"]).dictionary_encode(),
         FIELD("n") == b"x"),
        (pa.array([Decimal("1.5")]), pa.array([Decimal("7.5")]), FIELD("n") > Decimal("2.0")),
        (pa.array([Decimal("1.5")], pa.decimal32(5, 1)), pa.array([None, 7], pa.decimal32(5, 1)),
         FIELD("n") > Decimal("2.0")),
        (pa.array([Decimal("1.5")], pa.decimal32(5, 1)), pa.array([7], pa.decimal64(15, 1)),
         FIELD("n") == pa.scalar(Decimal("1.5"), pa.decimal64(15, 1))),
        (pa.array([DAY]), pa.array([DAY + timedelta(1)]), FIELD("n") > DAY),
        (pa.array([DAY.date()]), pa.array([date(2014, 1, 1)]), FIELD("n") > DAY.date()),
        (pa.array(["a", "b"]).dictionary_encode(), pa.array(["x"]).dictionary_encode(),
         FIELD("n") == "x"),
        (pa.array([1, 2]), pa.array([None, None], pa.int64()), FIELD("n").is_null()),
        (pa.array([None], pa.int64()), pa.array([4]), FIELD("n").is_valid()),
    ],
    ids=[
        "int8", "uint64", "float64", "bool", "bytes", "decimal", "decimal32", "decimal64",
        "timestamp", "date", "dictionary", "nulls", "values",
    ],
)  # fmt: skip
def test_bounds_of_every_ordered_type_leave_a_stream_out(tmp_path, low, high, wanted):
    first, second = pa.table({"n": low}), pa.table({"n": high})
    fill(tmp_path, first, second, segments=2)
    scan = quiver.scan(tmp_path, slot="rows", where=wanted)
    whole = quiver.scan(tmp_path, slot="rows").to_table()
    assert scan.to_table().equals(whole.filter(wanted))
    assert scan.to_table().num_rows > 0
    assert scan.skipped.segments == 1


def test_a_column_with_nan_has_no_bounds_and_its_rows_are_found(tmp_path):
    fill(tmp_path, pa.table({"n": [1.0, NAN]}), pa.table({"n": [2.0]}), pa.table({"n": [NAN]}))
    found = quiver.scan(tmp_path, slot="rows", where=FIELD("n").is_nan())
    assert found.count_rows() == 2
    other = quiver.scan(tmp_path, slot="rows", where=FIELD("n") != 1.0)
    assert [str(n) for n in other.to_table()["n"].to_pylist()] == ["nan", "2.0", "nan"]


def test_a_column_that_a_stream_lacks_is_null_in_it(tmp_path):
    fill(tmp_path, pa.table({"a": [1]}), pa.table({"a": [1], "b": [5]}))
    has = quiver.scan(tmp_path, slot="rows", where=FIELD("b") == 5)
    lacks = quiver.scan(tmp_path, slot="rows", where=FIELD("b").is_null())
    assert (has.count_rows(), has.skipped.streams) == (1, 1)
    assert (lacks.count_rows(), lacks.skipped.streams) == (1, 1)


def test_long_text_and_text_in_no_dictionary_have_no_bounds(tmp_path):
    long = pa.array(["x" * 65]).dictionary_encode()
    fill(tmp_path, pa.table({"n": long, "m": ["x"]}))
    for name in ("n", "m"):
        scan = quiver.scan(tmp_path, slot="rows", where=FIELD(name) == "y")
        assert (scan.count_rows(), scan.skipped.streams) == (0, 0)


def test_chunks_are_found_by_the_time_of_their_append(tmp_path):
    clock = ManualClock(wall_ns=10 * 10**9)
    fill(tmp_path, *numbers([1], [2], [3], [4]), segments=2, clock=clock)
    scan = quiver.scan(tmp_path, slot="rows", ingestion_time=(11 * 10**9, 13 * 10**9))
    assert scan.to_table()["n"].to_pylist() == [2, 3]
    assert scan.count_rows() == 2
    assert scan.skipped == Extent(0, 0, 2, 2)
    until = datetime.fromtimestamp(11, UTC)
    assert quiver.scan(tmp_path, slot="rows", ingestion_time=(None, until)).count_rows() == 1
    assert quiver.scan(tmp_path, slot="rows", ingestion_time=(99 * 10**9, None)).count_rows() == 0


@pytest.mark.parametrize("kind", [pa.timestamp("s"), pa.timestamp("us", "Europe/Berlin")])
def test_rows_are_found_by_event_time_whatever_its_unit(tmp_path, kind):
    slots = [quiver.Slot(0, "rows", 0, "at")]
    times = [[0, 1], [2, None], [5, 6]]
    factor = 1 if kind.unit == "s" else 10**6
    rows = [[None if n is None else n * factor for n in part] for part in times]
    fill(tmp_path, *(pa.table({"at": pa.array(r, kind)}) for r in rows), slots=slots)
    for span, wanted in [
        ((1 * 10**9, 6 * 10**9), 3),
        ((1 * 10**9 + 1, 6 * 10**9 + 1), 3),
        (("1970-01-01T00:00:05", None), 2),
        ((None, "1970-01-01T00:00:01+00:00"), 1),
    ]:
        assert quiver.scan(tmp_path, slot="rows", event_time=span).count_rows() == wanted
    late = quiver.scan(tmp_path, slot="rows", event_time=(5 * 10**9, None))
    assert late.skipped.chunks == 2


@pytest.mark.parametrize(
    "options",
    [
        {"where": "n > 5"},
        {"event_time": (1, 2)},
        {"ingestion_time": (2, 1)},
        {"ingestion_time": 5},
        {"ingestion_time": ("yesterday", None)},
        {"ingestion_time": (1.5, None)},
        {"verify": "never"},
    ],
)
def test_a_filter_that_makes_no_sense_is_refused_at_once(tmp_path, options):
    fill(tmp_path, *numbers([1]))
    with pytest.raises(InputError):
        quiver.scan(tmp_path, slot="rows", **options)


def test_a_filter_on_a_column_that_is_not_there_says_so(tmp_path):
    fill(tmp_path, *numbers([1]))
    with pytest.raises(InputError, match="missing"):
        quiver.scan(tmp_path, slot="rows", where=FIELD("missing") == 1).to_table()


def test_select_narrows_columns_and_rows_of_the_same_snapshot(tmp_path):
    fill(tmp_path, pa.table({"a": [1, 2, 3], "b": [4, 5, 6], "c": [7, 8, 9]}))
    scan = quiver.scan(tmp_path, slot="rows", where=FIELD("a") > 1)
    fewer = scan.select(columns=["c"], where=FIELD("b") < 6)
    assert fewer.to_table().to_pydict() == {"c": [8]}
    assert scan.to_table().num_rows == 2
    assert fewer.segments == scan.segments


COLUMNS: dict[str, pa.DataType] = {
    "n": pa.int32(),
    "f": pa.float64(),
    "s": pa.string(),
    "d": pa.dictionary(pa.int8(), pa.string()),
    "t": pa.timestamp("us"),
    "p": pa.decimal32(5, 2),
    "q": pa.decimal64(12, 1),
    "r": pa.decimal128(20, 3),
}
VALUES = {
    "n": st.integers(-5, 5),
    "f": st.sampled_from([-1.0, 0.0, 2.5, NAN, math.inf]),
    "s": st.sampled_from(["", "a", "b", "ä"]),
    "d": st.sampled_from(["x", "y", "z"]),
    "t": st.integers(0, 5),
    **dict.fromkeys("pqr", st.sampled_from([Decimal(n) / 2 for n in range(-4, 5)])),
}
LITERALS = {**VALUES, "f": st.sampled_from([-1.0, 0.0, 2.5, 3.0])}


@st.composite
def tables(draw):
    names = draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, unique=True))
    rows = draw(st.integers(0, 4))
    return pa.table({
        name: pa.array(
            draw(st.lists(st.none() | VALUES[name], min_size=rows, max_size=rows)), COLUMNS[name]
        )
        for name in names
    })  # fmt: skip


@st.composite
def conditions(draw, depth=2):
    if depth and draw(st.booleans()):
        left, right = draw(conditions(depth - 1)), draw(conditions(depth - 1))
        return draw(st.sampled_from([left & right, left | right, ~left]))
    name = draw(st.sampled_from(list(COLUMNS)))
    field = FIELD(name)
    kind = pa.string() if name == "d" else COLUMNS[name]
    value, other = (pa.scalar(draw(LITERALS[name]), kind) for _ in range(2))
    return draw(
        st.sampled_from(
            [
                field == value,
                field != value,
                field < value,
                field <= value,
                field > value,
                field >= value,
                field.is_null(),
                field.is_valid(),
                (field >= value) & (field < other),
                ~(field == value),
                *([field.isin([value, other])] if name not in "dpq" else []),
                *([FIELD("p") < FIELD(name), FIELD("q") == FIELD("p")] if name in "pqr" else []),
            ]
        )
    )


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    bundles=st.lists(tables(), min_size=1, max_size=6), where=conditions(), each=st.integers(1, 3)
)
def test_a_filtered_scan_gives_the_rows_that_the_filter_keeps_of_the_whole(bundles, where, each):
    with tempfile.TemporaryDirectory() as folder:
        fill(folder, pa.table({n: pa.array([], k) for n, k in COLUMNS.items()}), *bundles,
             segments=each)  # fmt: skip
        whole = quiver.scan(folder, slot="rows").to_table()
        scan = quiver.scan(folder, slot="rows", where=where)
        expected = whole.filter(where)
        assert str(scan.to_table().to_pylist()) == str(expected.to_pylist())
        assert scan.count_rows() == expected.num_rows
        one = scan.select(columns=["s"]).to_table()
        assert one.to_pydict() == {"s": expected["s"].to_pylist()}
        assert scan.skipped.rows <= whole.num_rows - expected.num_rows
