"""``startingTime`` and ``endingTime`` find segments as cursors do, and give the same rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import quiver
from quiver.scan import Scan
from quiver.spark import QuiverDataSource


def store_of(path: Path, times: range, *, core: int, rule: str) -> None:
    config = {"segment": {"time": rule}}
    with quiver.open(path, slots=["logs"], core=core, worker=False, config=config) as store:
        for time in times:
            table = pa.record_batch({"n": [time]})
            store.append({"logs": table}, time=time if rule == "caller" else None)
            if time % 4 == 3:
                store.finalize()


def chosen(path: Path, **options: str) -> Scan:
    found = QuiverDataSource({"path": str(path), "slot": "logs", **options})._found
    assert isinstance(found, Scan)
    return found


@pytest.mark.parametrize("start", [None, 0, 9, 12, 39, 40])
@pytest.mark.parametrize("end", [None, 0, 1, 12, 13, 99])
def test_only_segments_in_range_are_looked_into(tmp_path, start, end) -> None:
    store_of(tmp_path, range(40), core=0, rule="caller")
    times = {"startingTime": start, "endingTime": end}
    given = {name: str(time) for name, time in times.items() if time is not None}
    low, high = start or 0, 10**9 if end is None else end
    if low > high:
        return
    scan = chosen(tmp_path, **given)
    expected = [time for time in range(40) if low <= time < high]
    assert [ref.segment_seq for ref in scan.segments] == sorted({time // 4 for time in expected})
    if expected:
        assert scan.to_table()["n"].to_pylist() == expected


def test_segments_of_cores_that_follow_the_clock_all_stay(tmp_path) -> None:
    store_of(tmp_path, range(8), core=0, rule="caller")
    store_of(tmp_path, range(8), core=1, rule="clock")
    scan = chosen(tmp_path, endingTime="4")
    assert [(ref.core, ref.segment_seq) for ref in scan.segments] == [(0, 0), (1, 0), (1, 1)]
    assert scan.to_table()["n"].to_pylist() == [0, 1, 2, 3]
