"""Dictionaries are united unless bundles come too fast for it, and any way gives the same."""

from __future__ import annotations

import pyarrow as pa
import pytest

import quiver
from quiver.config import SegmentConfig
from quiver.engine.pace import Pace
from quiver.segment import SegmentReader
from quiver.testing.same import difference

MB = 1_000_000
MS = 1_000_000


def pace(how="auto"):
    return Pace(SegmentConfig(dictionaries=how))


def test_what_comes_slowly_is_united_and_what_comes_fast_is_not():
    assert not pace().keeps(32 * MB, 1000 * MS)
    assert pace().keeps(32 * MB, 100 * MS)
    assert pace().hurries(4 * MB, 10 * MS)
    assert not pace().hurries(4 * MB, 100 * MS)


def test_little_is_united_however_fast_it_came():
    assert not pace().keeps(8 * MB, 0)
    assert not pace().hurries(MB, 0)


def test_how_long_it_took_is_learnt_and_the_worst_forgotten_by_and_by():
    slow = pace()
    slow.note(32 * MB, 32 * 10 * MS)
    assert slow.keeps(32 * MB, 600 * MS)
    fast = pace()
    fast.note(32 * MB, 32 * MS)
    assert not fast.keeps(32 * MB, 100 * MS)
    hung = pace()
    hung.note(32 * MB, 3_600_000 * MS)
    assert hung.keeps(32 * MB, 1000 * MS)
    assert any(not hung.keeps(32 * MB, 1000 * MS) for _ in range(30))
    small = pace()
    small.note(MB, 10_000 * MS)
    assert not small.keeps(32 * MB, 300 * MS)


@pytest.mark.parametrize("how", ["unite", "keep"])
def test_an_option_says_so_once_and_for_all(how):
    for filled_ns in (0, 10**12):
        assert pace(how).keeps(MB, filled_ns) is pace(how).hurries(MB, filled_ns)
        assert pace(how).keeps(100 * MB, filled_ns) is (how == "keep")


def batch(number: int) -> pa.RecordBatch:
    texts = pa.array([f"{number}.{n % 700}" for n in range(2000)])
    return pa.record_batch({"n": pa.array(range(2000)), "text": texts.dictionary_encode()})


@pytest.mark.parametrize(("how", "streams"), [("unite", 1), ("keep", 6), ("auto", 1)])
def test_a_scan_and_a_subscriber_see_no_difference(tmp_path, how, streams):
    given = [batch(n) for n in range(6)]
    with quiver.open(tmp_path, slots=["a"], config={"segment": {"dictionaries": how}}) as store:
        store.subscribe("all")
        for each in given:
            store.append({"a": each}, wait=False)
        info = store.finalize()
        disk = store._core.disk
        with SegmentReader.open(disk, info.path) as reader:
            assert len(reader.streams) == streams
        scan = quiver.scan(tmp_path, slot="a")
        assert scan.to_table()["n"].to_pylist() == [*range(2000)] * 6
        subscription = store.subscribe("all")
        for each in given:
            with subscription.next(timeout=10) as handle:
                assert difference(each, handle["a"]) is None
