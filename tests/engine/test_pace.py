"""Dictionaries are united unless bundles come too fast for it, and any way gives the same."""

from __future__ import annotations

import pyarrow as pa
import pytest

import quiver
from quiver.config import SegmentConfig
from quiver.engine import ingest
from quiver.engine import open as open_store
from quiver.engine.pace import Pace, work_of
from quiver.engine.scribe import look_ahead
from quiver.engine.sealed import seal
from quiver.payload import EncodedBundle, Payload
from quiver.segment import OpenSegment, SegmentReader
from quiver.testing.manual_clock import ManualClock
from quiver.testing.same import difference

MB = 1_000_000
MS = 1_000_000


def pace(how="auto"):
    return Pace(SegmentConfig(dictionaries=how))


def test_what_comes_slowly_is_united_and_what_comes_fast_is_not():
    assert not pace().keeps(32 * MB, 10_000 * MS)
    assert pace().keeps(32 * MB, 1_000 * MS)
    assert pace().hurries(4 * MB, 100 * MS)
    assert not pace().hurries(4 * MB, 1_000 * MS)


def test_little_is_united_however_fast_it_came():
    assert not pace().keeps(8 * MB, 0)
    assert not pace().hurries(MB, 0)


def test_how_long_it_took_is_learnt_and_the_worst_forgotten_by_and_by():
    slow = pace()
    slow.note(32 * MB, 32 * 10 * MS)
    assert slow.keeps(32 * MB, 6_000 * MS)
    fast = pace()
    fast.note(32 * MB, 32 * MS)
    assert not fast.keeps(32 * MB, 1_000 * MS)
    hung = pace()
    hung.note(32 * MB, 3_600_000 * MS)
    assert hung.keeps(32 * MB, 10_000 * MS)
    assert any(not hung.keeps(32 * MB, 10_000 * MS) for _ in range(30))
    small = pace()
    small.note(MB, 10_000 * MS)
    assert not small.keeps(32 * MB, 3_000 * MS)


def test_one_that_took_longer_behind_a_fast_one_is_kept_and_no_second_one():
    paused = pace()
    assert not paused.keeps(32 * MB, 5_000 * MS)
    assert paused.keeps(32 * MB, 1_000 * MS)
    assert paused.hurries(32 * MB, 5_000 * MS)
    assert paused.keeps(32 * MB, 5_000 * MS)
    assert not paused.hurries(32 * MB, 5_000 * MS)
    assert not paused.keeps(32 * MB, 5_000 * MS)
    assert paused.keeps(32 * MB, 1_000 * MS)
    assert not paused.keeps(32 * MB, 50_000 * MS)  # That is slow, whatever was before.


def opened(payload_bytes: int, *, bundles: int) -> OpenSegment:
    """An open segment of so many bundles of a payload each, of so many bytes together."""
    content = OpenSegment(SegmentConfig())
    payload = Payload(0, 0, bytes(32), 1, bytes(payload_bytes // bundles))
    for number in range(bundles):
        content.add(EncodedBundle(number, 0, (payload,)), 0)
    return content


def test_many_small_payloads_are_more_work_than_few_large_ones():
    few, many = opened(10 * MB, bundles=5), opened(10 * MB, bundles=5000)
    assert not pace().keeps(work_of(few), 2_000 * MS)
    assert pace().keeps(work_of(many), 2_000 * MS)


def test_what_was_begun_is_let_go_once_bundles_come_too_fast_and_taken_up_when_they_do_not(
    tmp_path,
):
    clock = ManualClock()
    with open_store(tmp_path, slots=["a"], clock=clock, worker=False) as store:
        core = store._core
        store.append({"a": batch(0)})
        look_ahead(core)
        assert (core.ahead.bundle_count, core.ahead.keeps) == (1, False)
        for number in range(1, 80):
            store.append({"a": batch(number)})
        look_ahead(core)
        assert (core.ahead.bundle_count, core.ahead.keeps) == (80, True)
        clock.step("100s")
        look_ahead(core)
        assert (core.ahead.bundle_count, core.ahead.keeps) == (80, False)


@pytest.mark.parametrize("seconds", ["1ms", "100s"])
def test_a_segment_is_kept_or_united_by_when_it_was_full_and_not_by_what_was_begun(
    tmp_path, seconds
):
    clock = ManualClock()
    with open_store(tmp_path, slots=["a"], clock=clock, worker=False) as store:
        for number in range(300):
            store.append({"a": batch(number)})
        look_ahead(store._core)
        assert store._core.ahead.keeps
        clock.step(seconds)
        info = store.finalize()
        with SegmentReader.open(store._core.disk, info.path) as reader:
            reader.verify()
            assert len(reader.streams) == (300 if seconds == "1ms" else 4)
            for number in (0, 150, 299):
                assert difference(batch(number), reader.bundle(number)[0]) is None


def test_who_waited_before_a_bundle_came_does_not_count():
    content = opened(MB, bundles=1)
    content.wanted_ns = 1
    content.add(EncodedBundle(1, 0, ()), 2)
    assert content.wanted_ns is None


def test_the_time_that_appends_wait_for_the_writer_is_not_time_to_unite(tmp_path, monkeypatch):
    clock = ManualClock()
    config = {"segment": {"target_size": "100KB", "max_open_duration": "1h"}}
    with open_store(tmp_path, slots=["a"], config=config, clock=clock, worker=False) as store:
        core = store._core
        store.append({"a": batch(0)})
        with core.lock:
            seal(core)
            core.writer = 0  # As if somebody were at it.
        for _ in range(20):
            if not core.open_segment.is_full:
                clock.step("1s")
                store.append({"a": batch(1)})
        assert core.open_segment.is_full
        took_ns = clock.monotonic_ns() - core.open_segment.opened_ns

        def wait(_):
            clock.step("100s")
            core.sealed = core.writer = None

        monkeypatch.setattr(core.written, "wait", wait)
        with core.lock:
            assert ingest.take(core, ingest.encode(core, {"a": batch(2)})).has_sealed
        assert core.sealed.filled_ns == took_ns


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
