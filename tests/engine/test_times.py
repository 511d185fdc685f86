"""The times of a core's bundles never fall, with ``segment.time`` ``writer`` and ``caller``."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from store_kit import SLOTS, abandon, bundle, numbers, on_memory

import quiver
from quiver.engine.dropping import drop_open
from quiver.engine.intake import take_in
from quiver.engine.outgoing import _refuse
from quiver.errors import CapacityError
from quiver.segment import SegmentReader
from quiver.testing import ManualClock, MemoryDisk

START = ManualClock().wall_ns()
WRITER = {"segment": {"time": "writer"}}
CALLER = {"segment": {"time": "caller"}}


def times(store: quiver.Store) -> list[int]:
    """Give the times of all bundles in segments, in order."""
    found: list[int] = []
    core = store._core
    for info in core.catalog:
        with SegmentReader.open(core.disk, info.path) as reader:
            ns = reader.manifest.ingestion_ns()
            assert ns is not None
            assert (info.ingestion_ns_min, info.ingestion_ns_max) == (min(ns), max(ns))
            found += ns.tolist()
    return found


def blocks(store: quiver.Store) -> list[tuple[int, int]]:
    infos = list(store._core.catalog)
    return [(info.ingestion_ns_min or 0, info.ingestion_ns_max or 0) for info in infos]


def test_r14_blocks_of_a_writer_do_not_overlap_whatever_the_clock_does(opener, clock) -> None:
    store = opener(WRITER)
    for wall_ns in (START, START - 10**12, START + 5, 0, START + 10):
        clock.jump_to(wall_ns)
        store.append(bundle(1))
        store.append(bundle(2))
        store.finalize()
    assert all(a[1] < b[0] for a, b in pairwise(blocks(store)))
    found = times(store)
    assert sorted(set(found)) == found
    assert found[-1] == START + 11


def test_with_the_clock_rule_times_are_those_of_the_clock(opener, clock, path) -> None:
    store = opener()
    for wall_ns in (START, START - 7):
        clock.jump_to(wall_ns)
        store.append(bundle(1))
    store.finalize()
    assert times(store) == [START, START - 7]
    assert not (path / "core_0" / "timeline").exists()


def test_r4_a_falling_time_is_refused_and_nothing_written(opener) -> None:
    store = opener(CALLER)
    store.append(bundle(1), time=100)
    before = store.info()
    with pytest.raises(quiver.OutOfSequenceError) as raised:
        store.append(bundle(2), time=99)
    assert (raised.value.partition, raised.value.last, raised.value.given) == (0, 100, 99)
    assert store.info() == before
    store.append(bundle(3), time=101)
    store.finalize()
    assert times(store) == [100, 101]
    assert numbers(store) == [1, 3]


def test_r5_a_thousand_bundles_of_one_time_come_back_in_their_order(opener) -> None:
    store = opener(CALLER)
    for number in range(1000):
        store.append(bundle(number), time="2020-01-01", wait=False)
    store.finalize()
    assert len(set(times(store))) == 1
    assert numbers(store) == list(range(1000))


def test_r7_another_partition_may_be_anywhere_in_time(opener) -> None:
    one, other = opener(CALLER, core=0), opener(CALLER, core=1)
    one.append(bundle(1), time=100)
    other.append(bundle(2), time=7)
    one.finalize()
    other.finalize()
    assert (times(one), times(other)) == ([100], [7])


def run(config: dict[str, Any], given: list[int], store: quiver.Store) -> list[tuple[int, int]]:
    for ns in given:
        store.append({"events": pa.record_batch({"n": pa.array([ns] * 40)})}, time=ns)
    store.finalize()
    assert times(store) == given
    return blocks(store)


def test_r15_no_block_ends_inside_a_run_of_equal_times(opener) -> None:
    config = {"segment": {"time": "caller", "target_size": 4000}}
    given = sorted([1] * 3 + [2] * 6 + [3, 4, 5, 6] * 4)
    found = run(config, given, opener(config))
    assert len(found) > 2
    assert all(a[1] < b[0] for a, b in pairwise(found))


def test_r16_a_run_that_is_too_long_goes_on_in_the_next_block(opener) -> None:
    config = {"segment": {"time": "caller", "target_size": 3000}}
    found = run(config, [5] * 40, opener(config))
    assert len(found) > 1
    assert set(found) == {(5, 5)}


def test_a_full_segment_of_one_time_is_written_when_it_is_old(opener, clock) -> None:
    store = opener({"segment": {"time": "caller", "target_size": 1000}})
    for _ in range(4):
        store.append(bundle(1), time=5)
    store.maintain()
    assert store._core.open_segment.is_full
    assert blocks(store) == []
    clock.step("6s")
    store.maintain()
    assert blocks(store) == [(5, 5)]


@pytest.mark.parametrize("is_in_segments", [False, True], ids=["in the log", "in a segment"])
@pytest.mark.parametrize("count", [1, 300])
def test_the_rule_holds_across_a_kill(opener, clock, is_in_segments, count) -> None:
    store = opener(WRITER)
    for number in range(count):
        store.append(bundle(number), wait=False)
    store.flush()
    if is_in_segments:
        store.finalize()
    abandon(store)
    clock.jump_to(1)
    store = opener(WRITER)
    store.append(bundle(0))
    store.finalize()
    assert times(store) == [START + number for number in range(count + 1)]


def test_the_rule_holds_when_nothing_is_left_of_the_bundles(opener, clock) -> None:
    store = opener(WRITER)
    store.append(bundle(1))
    store.finalize()
    assert numbers(store) == [1]
    store.maintain()
    assert blocks(store) == []
    abandon(store)
    clock.jump_to(1)
    store = opener(WRITER)
    store.append(bundle(2))
    store.finalize()
    assert times(store) == [START + 1]


def test_the_rule_holds_when_the_open_bundles_were_dropped(clock) -> None:
    disk = MemoryDisk()
    options = {"size_cap": 1 << 21, "size_cap_policy": "drop_oldest"}
    limits = {"entry_bytes": 1 << 17}
    sections = {
        "wal": {"max_size": 1 << 18},
        "limits": limits,
        "segment": {"time": "writer", "target_size": 1 << 18},
    }
    store = on_memory(disk, retention=options, **sections)
    store.append(bundle(1))

    with store._core.lock:
        drop_open(store._core)
    abandon(store)
    clock.jump_to(1)
    reopened = quiver.open(
        "m", disk=disk, clock=clock, worker=False, config={"retention": options, **sections}
    )
    reopened.append(bundle(2))
    reopened.finalize()
    assert times(reopened) == [START + 1]


def test_another_rule_goes_on_behind_the_times_there_are(opener, clock) -> None:
    store = opener()
    store.append(bundle(1))
    store.close()
    store = opener(CALLER)
    with pytest.raises(quiver.OutOfSequenceError):
        store.append(bundle(2), time=5)
    store.append(bundle(2), time=START)
    store.close()
    clock.jump_to(3)
    store = opener(WRITER)
    store.append(bundle(3))
    store.close()
    store = opener()
    store.append(bundle(4))
    store.finalize()
    assert times(store) == [START, START, START + 1, 3]


@pytest.mark.usefixtures("as_another_thread")
def test_what_the_disk_refused_leaves_no_time_behind() -> None:
    disk = MemoryDisk()
    store = quiver.open("m", slots=SLOTS, disk=disk, config=CALLER, clock=ManualClock())
    store.append(bundle(1), time=5)
    core = store._core
    with core.lock:
        receipt = store.append(bundle(2), time=9, wait=False)
        core.outgoing.failure = CapacityError("full")

        _refuse(core)
    with pytest.raises(CapacityError):
        receipt.wait()
    store.append(bundle(3), time=6)
    store.close()


def test_a_heartbeat_is_kept_and_lower_times_refused(opener, clock) -> None:
    store = opener(CALLER)
    store.append(bundle(1), time=5)
    assert store.heartbeat(20) == 20
    assert store.heartbeat(3) == 20
    with pytest.raises(quiver.OutOfSequenceError):
        store.append(bundle(2), time=20)
    abandon(store)
    store = opener(CALLER)
    with pytest.raises(quiver.OutOfSequenceError):
        store.append(bundle(2), time=20)
    store.append(bundle(2), time=21)


def test_a_writer_promises_what_the_clock_says(opener, clock) -> None:
    store = opener(WRITER)
    assert store.heartbeat() == START
    store.append(bundle(1))
    assert store._core.times.last_ns == START + 1


@pytest.mark.parametrize(
    "config, given",
    [({}, None), ({}, 5), (WRITER, 5), (CALLER, None)],
    ids=["clock", "clock with a time", "writer with a time", "caller without"],
)
def test_a_heartbeat_that_makes_no_sense_is_refused(opener, config, given) -> None:
    with pytest.raises(quiver.InputError, match="heartbeat"):
        opener(config).heartbeat(given)


@pytest.mark.parametrize("config", [WRITER, CALLER], ids=["writer", "caller"])
def test_a_tick_sends_heartbeats_where_the_store_knows_the_time(opener, clock, config) -> None:
    store = opener(config)
    is_caller = config is CALLER
    store.append(bundle(1), time=5 if is_caller else None)
    clock.step("1h")
    store.maintain()
    least = store._core.times.least_ns
    assert least == (5 if is_caller else clock.wall_ns() + 1)


def test_a_damaged_timeline_costs_no_data(opener, path) -> None:
    store = opener(CALLER)
    store.append(bundle(1), time=5)
    abandon(store)
    (path / "core_0" / "timeline").write_bytes(b"what")
    store = opener(CALLER)
    with pytest.raises(quiver.OutOfSequenceError):
        store.append(bundle(2), time=4)
    store.append(bundle(2), time=5)
    assert numbers_after_finalize(store) == [1, 2]


def numbers_after_finalize(store: quiver.Store) -> list[int]:
    store.finalize()
    return numbers(store)


@pytest.mark.parametrize("rule", ["clock", "writer", "caller"])
def test_segments_taken_in_lie_behind_what_there_is(tmp_path, clock, rule) -> None:
    def opened(config: dict[str, Any]) -> quiver.Store:
        return quiver.open(tmp_path / "s", slots=SLOTS, clock=clock, worker=False, config=config)

    with opened({"segment": {"time": rule}}) as store:
        store.append(bundle(1), time=50 if rule == "caller" else None)
    with opened({}) as other:
        core = other._core
        path = next(iter(core.catalog)).path
        data = bytes(core.disk.map(path))
        staged = []
        for name in "ab":
            core.disk.make_dir("staging")
            with core.lock:
                file = core.disk.create(f"staging/{name}.qseg")
                file.write(0, data)
                file.close()
            staged.append(f"staging/{name}.qseg")
            with core.lock:
                take_in(core, [staged[-1]])
        found = blocks(other)
    expected = {
        "clock": [(START, START)] * 3,
        "writer": [(START + n, START + n) for n in range(3)],
        "caller": [(50, 50)] * 3,
    }
    assert found == expected[rule]
