"""What there is to read between two positions, whatever comes, goes or is deleted meanwhile."""

from __future__ import annotations

import os
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from store_kit import writer

import quiver
from quiver.disk import LocalDisk
from quiver.errors import SourceError
from quiver.scan import SegmentRef
from quiver.source.stores import Limits, Planner, Position
from quiver.source.stores.admission import admit
from quiver.source.stores.listing import Entry, Listing
from quiver.testing import ManualClock


def log(*numbers: int) -> dict[str, pa.RecordBatch]:
    return {"logs": pa.record_batch({"n": list(numbers)})}


class Ground:
    """A store in a folder, and planners over it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.write = writer(path)
        self.lost: list[str] = []

    def planner(self, *, fail: bool = True) -> Planner:
        disk = LocalDisk(self.path)
        note = lambda error: self.lost.append(str(error))
        return Planner(disk, self.slot_id, clock=ManualClock(), fail_on_loss=fail, on_loss=note)

    @property
    def slot_id(self) -> int:
        from quiver.manifest import StoreManifest

        return StoreManifest.read(LocalDisk(self.path)).slots["logs"].slot_id

    def remove(self, core: int, seq: int) -> None:
        os.unlink(self.path / f"core_{core}" / "segments" / f"{seq:016}.qseg")


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path / "store")


def spans(planner: Planner, start: dict, end: dict) -> list[tuple[int, int, int, int | None]]:
    found = planner.between(start, end)
    return [(s.segment.core, s.segment.segment_seq, s.first, s.stop) for s in found]


def test_all_that_is_finalized_is_next_and_then_nothing_is(ground) -> None:
    ground.write([log(1), log(2)], [log(3)])
    planner = ground.planner()
    start = planner.start("earliest")
    end = planner.latest(start)
    assert (start, end) == ({0: Position(0)}, {0: Position(2)})
    assert spans(planner, start, end) == [(0, 0, 0, None), (0, 1, 0, None)]
    assert planner.latest(end) == end
    assert spans(planner, end, end) == []


def test_positions_within_segments_cut_them(ground) -> None:
    ground.write([log(1), log(2), log(3)], [log(4)])
    planner = ground.planner()
    start, end = {0: Position(0, 1)}, {0: Position(1, 1)}
    assert spans(planner, start, end) == [(0, 0, 1, None), (0, 1, 0, 1)]
    assert spans(planner, {0: Position(0, 1)}, {0: Position(0, 2)}) == [(0, 0, 1, 2)]


def test_a_core_that_comes_later_is_read_from_its_first_bundle(ground) -> None:
    ground.write([log(1)])
    planner = ground.planner()
    start = planner.latest(planner.start("latest"))
    ground.write([log(2)], core=1)
    end = planner.latest(start)
    assert end == {0: Position(1), 1: Position(1)}
    assert spans(planner, start, end) == [(1, 0, 0, None)]


def test_a_core_whose_folder_goes_stays_where_it_is(ground) -> None:
    ground.write([log(1)])
    ground.write([log(2)], core=1)
    planner = ground.planner()
    end = planner.latest(planner.start("earliest"))
    shutil.rmtree(ground.path / "core_1")
    ground.write([log(3)])
    later = planner.latest(end)
    assert later == {0: Position(2), 1: Position(1)}
    assert spans(planner, end, later) == [(0, 1, 0, None)]


def test_a_core_that_goes_with_what_was_not_read_is_a_loss(ground) -> None:
    ground.write([log(1)])
    ground.write([log(2)], core=1)
    planner = ground.planner()
    start = planner.start("earliest")
    shutil.rmtree(ground.path / "core_1")
    with pytest.raises(SourceError, match="segment 0 of core 1 is gone"):
        planner.latest(start)
    with pytest.raises(SourceError, match="segment 0 of core 1 is gone"):
        spans(planner, start, {0: Position(1), 1: Position(1)})


@pytest.mark.parametrize(
    ("gone", "said"),
    [
        ([0], "segment 0 of core 0 is gone"),
        ([1], "segment 1 of core 0 is gone"),
        ([0, 1], "segments 0 to 1 of core 0 are gone"),
        ([0, 1, 2], "segments 0 to 2 of core 0 are gone"),
    ],
)
def test_what_is_deleted_before_it_was_read_is_told(ground, gone, said) -> None:
    ground.write([log(1)], [log(2)], [log(3)])
    for seq in gone:
        ground.remove(0, seq)
    start = {0: Position(0)}
    with pytest.raises(SourceError, match=said) as told:
        ground.planner().latest(start)
    assert "failOnDataLoss=false" in told.value.hint
    lenient = ground.planner(fail=False)
    end = lenient.latest(start)
    assert [seq for _, seq, _, _ in spans(lenient, start, end)] == sorted({0, 1, 2} - {*gone})
    assert said in ground.lost[0]


def test_a_range_that_was_planned_before_is_the_same_again_or_an_error(ground) -> None:
    ground.write([log(1)], [log(2)])
    start, end = {0: Position(0)}, {0: Position(2)}
    first = spans(ground.planner(), start, end)
    ground.write([log(3)])
    assert spans(ground.planner(), start, end) == first
    ground.remove(0, 1)
    with pytest.raises(SourceError, match="segment 1 of core 0"):
        spans(ground.planner(), start, end)


def test_a_core_that_was_made_anew_is_not_passed_over(ground) -> None:
    ground.write([log(1)], [log(2)], [log(3)])
    end = ground.planner().latest({0: Position(0)})
    shutil.rmtree(ground.path / "core_0")
    ground.write([log(4)])
    with pytest.raises(SourceError, match="another one"):
        ground.planner().latest(end)
    lenient = ground.planner(fail=False)
    later = lenient.latest(end)
    assert spans(lenient, end, later) == [(0, 0, 0, None)]
    assert lenient.latest(later) == later


def test_segments_below_a_position_may_go(ground) -> None:
    ground.write([log(1)], [log(2)])
    end = ground.planner().latest({0: Position(0)})
    ground.remove(0, 0)
    ground.remove(0, 1)
    planner = ground.planner()
    assert planner.latest(end) == end
    ground.write([log(3)])
    assert planner.latest(end) == {0: Position(3)}


def test_starts_are_those_of_subscribe(ground) -> None:
    ground.write([log(1)], [log(2), log(3)])
    planner = ground.planner()
    assert planner.start("latest") == {0: Position(2)}
    assert planner.start(1) == {0: Position(1)}
    assert planner.start(99) == {0: Position(2)}


def test_a_time_is_found_within_a_segment(tmp_path) -> None:
    clock = ManualClock()
    path = tmp_path / "store"
    with quiver.open(path, slots=["logs"], clock=clock, worker=False) as store:
        store.append(log(1))
        clock.step("1m")
        late_ns = clock.wall_ns()
        store.append(log(2))
        store.finalize()
    late = datetime.fromtimestamp(late_ns / 1e9, UTC)
    assert Ground(path).planner().start(late) == {0: Position(0, 1)}


class Counting(LocalDisk):
    listings = 0
    synced = 0

    def list_dir(self, path):
        self.listings += path.endswith("segments")
        return super().list_dir(path)

    def sync_dir(self, path):
        self.synced += path.endswith("segments")
        super().sync_dir(path)


def test_a_folder_that_did_not_change_is_not_listed_again(ground) -> None:
    ground.write([log(1)])
    disk, clock = Counting(ground.path), ManualClock()
    clock.jump_to(time.time_ns() + 5_000_000_000)
    listing = Listing(disk, clock)
    first = listing.look()
    assert (disk.listings, disk.synced) == (1, 1)
    assert listing.look()[0] is first[0]
    assert (disk.listings, disk.synced) == (1, 1)
    ground.write([log(2)])
    assert len(listing.look()[0].entries) == 2
    assert (disk.listings, disk.synced) == (2, 2)


def test_a_folder_that_changed_just_now_is_listed_again(ground) -> None:
    ground.write([log(1)])
    disk, clock = Counting(ground.path), ManualClock()
    clock.jump_to(os.stat(ground.path / "core_0" / "segments").st_mtime_ns)
    listing = Listing(disk, clock)
    first = listing.look()
    assert listing.look()[0] is first[0]
    assert (disk.listings, disk.synced) == (2, 1)


class Overtaken(LocalDisk):
    """A disk on which two segments get their names while a folder is listed, behind the first."""

    hidden = 1

    def list_dir(self, path):
        found = super().list_dir(path)
        if path.endswith("segments") and self.hidden:
            self.hidden -= 1
            return [stat for stat in found if not stat.name.startswith(f"{1:016}")]
        return found


def test_a_listing_that_names_overtook_is_no_gap(ground) -> None:
    ground.write([log(0)], [log(1)], [log(2)])
    planner = Planner(Overtaken(ground.path), ground.slot_id, clock=ManualClock())
    end = planner.latest({})
    assert end == {0: Position(3)}
    assert [seq for _, seq, *_ in spans(planner, {}, end)] == [0, 1, 2]


def entry(core: int, seq: int, at: int, size: int = 10) -> Entry:
    return Entry(SegmentRef(core, seq, "", size), at)


def test_the_oldest_of_all_cores_come_first_and_each_core_in_its_order() -> None:
    pending = {
        0: [entry(0, 0, 5), entry(0, 1, 1)],
        1: [entry(1, 0, 2), entry(1, 1, 7)],
        2: [],
    }
    size = lambda entry: entry.ref.file_bytes
    taken = [admit(pending, Limits(segments_max=count), size) for count in (1, 2, 3, 9)]
    assert taken == [
        {0: 0, 1: 1, 2: 0},
        {0: 1, 1: 1, 2: 0},
        {0: 2, 1: 1, 2: 0},
        {0: 2, 1: 2, 2: 0},
    ]
    assert admit(pending, Limits(), size) == {0: 2, 1: 2, 2: 0}


@pytest.mark.parametrize(("bytes_max", "count"), [(1, 1), (10, 1), (19, 1), (20, 2), (30, 3)])
def test_a_limit_of_bytes_lets_at_least_one_pass(bytes_max, count) -> None:
    pending = {0: [entry(0, seq, seq) for seq in range(3)]}
    asked: list[int] = []

    def size(one: Entry) -> int:
        asked.append(one.ref.segment_seq)
        return one.ref.file_bytes

    assert admit(pending, Limits(bytes_max=bytes_max), size) == {0: count}
    assert len(asked) <= count + 1
    assert admit(pending, Limits(2, 30), size) == {0: 2}
