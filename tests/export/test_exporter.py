"""What goes into which file, and that nothing is acked before its file is there."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from export_kit import (
    NAME,
    STORE,
    Bundle,
    FakeSource,
    export,
    exported,
    numbered,
    numbers,
    ranges,
    read,
)

from quiver.errors import CapacityError, ClosedError, InputError, StorageError
from quiver.export import FORMATS, Exporter, ExportFolder, FileRange
from quiver.testing import ManualClock, MemoryDisk, crash_images

ROWS = pa.record_batch({"n": [0, 1]})


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


@pytest.mark.parametrize("to", FORMATS)
def test_bundles_that_follow_each_other_share_a_file(disk, to) -> None:
    source = FakeSource(numbered(3, 2, 1))
    tally = export(disk, source, to=to)
    assert ranges(disk) == [((0, 0), (2, 0))]
    assert numbers(exported(disk).values()) == list(range(12))
    assert source.acked == source.bundles
    assert (tally.file_count, tally.row_count, tally.bundle_count) == (1, 12, 6)
    assert tally.file_bytes == disk.stat(next(iter(exported(disk)))).size


def test_a_file_ends_before_it_would_have_too_many_rows(disk) -> None:
    export(disk, FakeSource(numbered(5)), rows=5)
    assert ranges(disk) == [((0, 0), (0, 1)), ((0, 2), (0, 3)), ((0, 4), (0, 4))]


def test_a_bundle_is_never_divided(disk) -> None:
    export(disk, FakeSource(numbered(3)), rows=1)
    assert ranges(disk) == [((0, n), (0, n)) for n in range(3)]


def test_a_file_ends_before_it_would_have_too_many_bytes(disk) -> None:
    export(disk, FakeSource(numbered(4)), size=2 * ROWS.nbytes)
    assert ranges(disk) == [((0, 0), (0, 1)), ((0, 2), (0, 3))]


def test_a_file_ends_where_too_many_bundles_would_be_held(disk, monkeypatch) -> None:
    monkeypatch.setattr("quiver.export.group.BUNDLES_MAX", 2)
    export(disk, FakeSource(numbered(3)))
    assert ranges(disk) == [((0, 0), (0, 1)), ((0, 2), (0, 2))]


def test_a_file_ends_where_the_schema_changes(disk) -> None:
    bundles = numbered(4)
    other = pa.record_batch({"n": pa.array([4.5])})
    bundles[2] = Bundle((0, 2), {"logs": other}, wal_seq=2)
    export(disk, FakeSource(bundles))
    assert ranges(disk) == [((0, 0), (0, 1)), ((0, 2), (0, 2)), ((0, 3), (0, 3))]


GAPS = {
    "an index is missing": [(0, 0, 0), (0, 2, 2)],
    "a step back": [(0, 1, 1), (0, 0, 0)],
    "a segment begins late": [(0, 0, 0), (1, 1, 1)],
    "the end of a segment may be missing": [(0, 0, 0), (1, 0, 2)],
    "it is not known what was appended when": [(0, 0, None), (1, 0, None)],
    "an older segment": [(1, 0, 0), (0, 0, 1)],
}


@pytest.mark.parametrize("places", GAPS.values(), ids=GAPS)
def test_a_file_ends_where_bundles_do_not_follow_each_other(disk, places) -> None:
    bundles = [Bundle((s, i), {"logs": ROWS}, wal_seq=number) for s, i, number in places]
    export(disk, FakeSource(bundles))
    assert ranges(disk) == sorted((bundle.place, bundle.place) for bundle in bundles)


def test_a_segment_number_that_nobody_used_is_no_gap(disk) -> None:
    export(disk, FakeSource([*numbered(1), Bundle((5, 0), {"logs": ROWS}, wal_seq=1)]))
    assert ranges(disk) == [((0, 0), (5, 0))]


def test_cores_have_files_of_their_own(disk) -> None:
    bundles = [Bundle((0, n), {"logs": ROWS}, core=n, wal_seq=n) for n in range(2)]
    export(disk, FakeSource(bundles))
    assert [FileRange.parse(name).core for name in exported(disk)] == [0, 1]


def test_bundles_without_the_slot_or_without_rows_are_in_the_range(disk) -> None:
    bundles = numbered(5)
    for n, slots in {0: {}, 2: {"other": ROWS}, 4: {"logs": ROWS.slice(0, 0)}}.items():
        bundles[n] = Bundle((0, n), slots, wal_seq=n)
    source = FakeSource(bundles)
    tally = export(disk, source)
    assert ranges(disk) == [((0, 0), (0, 4))]
    assert numbers(exported(disk).values()) == [2, 3, 6, 7]
    assert source.acked == bundles
    assert tally.repeated_count == 0


def test_a_range_without_rows_is_acked_and_makes_no_file(disk) -> None:
    source = FakeSource([Bundle((0, n), {"other": ROWS}) for n in range(3)])
    assert export(disk, source).file_count == 0
    assert source.acked == source.bundles
    assert exported(disk) == {}


def test_each_slot_has_files_of_the_same_bundles(disk) -> None:
    bundles = [
        Bundle((0, 0), {"logs": ROWS, "traces": ROWS}),
        Bundle((0, 1), {"traces": ROWS}),
        Bundle((0, 2), {"logs": pa.record_batch({"n": [0.5]}), "traces": ROWS}),
    ]
    source = FakeSource(bundles)
    export(disk, source, "logs", "traces")
    assert ranges(disk, "logs") == ranges(disk, "traces") == [((0, 0), (0, 1)), ((0, 2), (0, 2))]
    assert sum(table.num_rows for table in exported(disk, "traces").values()) == 6


def test_what_an_arrow_file_cannot_hold_together_gets_files_of_its_own(disk) -> None:
    inner = pa.array(["a", "b"]).dictionary_encode()
    views = pa.ListViewArray.from_arrays([0, 1], [1, 1], inner)
    bundles = [Bundle((0, n), {"logs": pa.record_batch({"v": views})}) for n in range(2)]
    export(disk, FakeSource(bundles), to="arrow")
    assert [table["v"].to_pylist() for table in exported(disk).values()] == [[["a"], ["b"]]] * 2


def test_a_second_run_writes_nothing_again(disk) -> None:
    export(disk, FakeSource(numbered(3, 2)))
    before = exported(disk)
    source = FakeSource(numbered(3, 2))
    tally = export(disk, source, to="csv", rows=1)
    assert exported(disk) == before
    assert source.acked == source.bundles
    assert (tally.file_count, tally.bundle_count, tally.repeated_count) == (0, 5, 5)


def test_bundles_behind_those_that_are_written_go_into_a_file_of_theirs(disk) -> None:
    bundles = numbered(6)
    export(disk, FakeSource(bundles[:3]))
    tally = export(disk, FakeSource(bundles[1:]))
    assert ranges(disk) == [((0, 0), (0, 2)), ((0, 3), (0, 5))]
    assert numbers(exported(disk).values()) == list(range(12))
    assert tally.repeated_count == 2


def test_of_two_slots_only_the_missing_one_is_written(disk) -> None:
    bundles = [Bundle((0, n), {"logs": ROWS, "traces": ROWS}) for n in range(4)]
    export(disk, FakeSource(bundles[:2]), "logs")
    export(disk, FakeSource(bundles), "logs", "traces")
    assert ranges(disk, "logs") == ranges(disk, "traces") == [((0, 0), (0, 1)), ((0, 2), (0, 3))]


def test_a_column_that_the_format_cannot_hold_ends_the_run_behind_what_came_before(disk) -> None:
    bundles = [*numbered(2), Bundle((0, 2), {"logs": pa.record_batch({"n": [[1]]})})]
    source = FakeSource(bundles)
    with pytest.raises(InputError, match="CSV cannot hold column 'n'"):
        export(disk, source, to="csv")
    assert source.acked == bundles[:2]
    assert source.given == []
    assert ranges(disk) == [((0, 0), (0, 1))]
    export(disk, source, to="ndjson")
    assert source.acked == bundles


def test_a_value_that_parquet_cannot_hold_acks_nothing(disk) -> None:
    odd = pa.record_batch({"n": pa.array([None], pa.month_day_nano_interval())})
    source = FakeSource([Bundle((0, 0), {"logs": odd})])
    with pytest.raises(InputError, match="Parquet cannot hold column 'n'"):
        export(disk, source)
    assert (source.acked, source.given, exported(disk)) == ([], [], {})


def test_a_full_disk_loses_nothing() -> None:
    disk = MemoryDisk(capacity=4 * 4096)  # The marker, the lock, and files of two blocks.
    rows = pa.record_batch({"n": list(range(900))})
    source = FakeSource([Bundle((0, n), {"logs": rows}, wal_seq=n) for n in range(4)])
    with pytest.raises(CapacityError):
        export(disk, source, to="arrow", rows=900)
    assert len(source.acked) == 1
    assert source.given == []
    disk.capacity = None
    export(disk, source, to="arrow", rows=900)
    assert ranges(disk) == [((0, n), (0, n)) for n in range(4)]
    assert source.acked == source.bundles


def test_an_ack_that_fails_is_made_up_for_and_nothing_is_written_twice(disk) -> None:
    countdown = itertools.count()

    def refuse_the_third(_: Bundle) -> None:
        if next(countdown) == 2:
            raise StorageError("no room in ack.log")

    source = FakeSource(numbered(5), on_ack=refuse_the_third)
    with pytest.raises(StorageError):
        export(disk, source)
    assert (len(source.acked), source.given) == (2, [])
    tally = export(disk, source)
    assert source.acked == source.bundles
    assert tally.repeated_count == 3
    assert numbers(exported(disk).values()) == list(range(10))


def workload(disk: MemoryDisk, source: FakeSource) -> None:
    export(disk, source, "logs", "traces", rows=4)


def two_slots(count: int) -> list[Bundle]:
    return [
        Bundle(b.place, {"logs": b.slots["logs"], "traces": b.slots["logs"]}, wal_seq=b.wal_seq)
        for b in numbered(count)
    ]


def check_once(disk: MemoryDisk, count: int) -> None:
    for slot in ("logs", "traces"):
        assert numbers(exported(disk, slot).values()) == list(range(2 * count))
    assert not [e.name for e in disk.list_dir("") if e.name.endswith(".tmp")]


@pytest.mark.parametrize("error", ["EIO", "ENOSPC", "short"])
def test_whatever_act_fails_a_second_run_has_each_row_once(error) -> None:
    rehearsal = MemoryDisk()
    workload(rehearsal, FakeSource(two_slots(4)))
    for act in range(rehearsal.act_count):
        disk, source = MemoryDisk(), FakeSource(two_slots(4))
        disk.fail(act, error=error)
        try:
            workload(disk, source)
        except (StorageError, CapacityError):
            assert source.given == []
            disk.forget_locks()
            workload(disk, source)
        check_once(disk, 4)
        assert source.acked == source.bundles


def check_again(disk: MemoryDisk, begin: Callable[[], object]) -> bool:
    """Run, fail, and run on when more is there, so that files are cut elsewhere."""
    bundles = two_slots(6)
    source = FakeSource(bundles[:3])
    with ExportFolder.open(disk, store_id=STORE, subscriber=NAME) as folder:
        exporter = Exporter(source, folder, slots=["logs", "traces"])
        begin()
        with suppress(StorageError, CapacityError, KeyboardInterrupt):
            exporter.run()
        is_whole, source.bundles = source.acked == bundles[:3], bundles
        assert source.given == []
        disk.heal()
        exporter.run()
    check_once(disk, 6)
    assert source.acked == bundles
    return is_whole


@pytest.mark.parametrize("error", ["EIO", "ENOSPC", "short"])
def test_whatever_act_fails_the_same_exporter_goes_on_with_each_row_once(error) -> None:
    for act in itertools.count():
        disk = MemoryDisk()
        if check_again(disk, lambda d=disk, n=act: d.fail(d.act_count + n, error=error)):
            break
    assert act > 4


def test_an_exporter_that_is_interrupted_before_it_settles_goes_on_with_each_row_once(
    disk, monkeypatch
) -> None:
    def settle(*_: object) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    assert not check_again(disk, lambda: monkeypatch.setattr(ExportFolder, "settle", settle))


@pytest.mark.parametrize("model", ["posix", "journaled"])
def test_after_any_power_cut_each_row_is_there_once(model) -> None:
    disk, bundles = MemoryDisk(), two_slots(4)
    source = FakeSource(bundles, on_ack=lambda b: disk.mark("acked", index=b.place[1]))
    workload(disk, source)
    judged = 0
    for image in crash_images(disk.history, model=model, budget=3000):
        after = image.disk()
        acked = {dict(mark.facts)["index"] for mark in image.marks}
        workload(after, FakeSource([b for b in bundles if b.place[1] not in acked]))
        check_once(after, 4)
        judged += 1
    assert judged > 50


class Following:
    """An exporter that follows, with a source and a clock that a test steps."""

    def __init__(self, disk: MemoryDisk, *bundles: Bundle) -> None:
        self.clock = ManualClock()
        self.source = FakeSource(list(bundles), on_wait=self._step)
        self.waits: list[float | None] = []
        self.steps: list[Callable[[], Any]] = []
        with ExportFolder.open(disk, store_id=STORE, subscriber=NAME) as folder:
            self.exporter = Exporter(self.source, folder, slots=["logs"], clock=self.clock)

    def _step(self, timeout: float | None) -> None:
        self.waits.append(timeout)
        self.steps.pop(0)()

    def run(self, *steps: Callable[[], Any]) -> None:
        self.steps = list(steps)
        self.exporter.run(follow=True, every="5s")
        assert self.steps == []


def test_following_a_file_is_written_when_its_first_bundle_is_old_enough(disk) -> None:
    bundles = numbered(4)
    following = Following(disk, bundles[0])

    def bring(index: int, after: str) -> None:
        following.clock.step(after)
        following.source.bundles.append(bundles[index])

    following.run(
        lambda: bring(1, "2s"),
        lambda: following.clock.step("3s"),
        lambda: bring(2, "60s"),
        lambda: bring(3, "7s"),
        following.source.close,
    )
    assert following.waits == [5, 3, None, 5, None]
    assert ranges(disk) == [((0, 0), (0, 1)), ((0, 2), (0, 3))]
    assert following.source.acked == bundles


def test_a_stop_writes_and_acks_what_is_there(disk) -> None:
    following = Following(disk, *numbered(3))
    following.run(following.exporter.stop)
    assert ranges(disk) == [((0, 0), (0, 2))]
    assert following.source.acked == following.source.bundles


def test_a_stop_ends_a_run_that_has_more_to_do(disk) -> None:
    source = FakeSource(numbered(5))
    with ExportFolder.open(disk, store_id=STORE, subscriber=NAME) as folder:
        exporter = Exporter(source, folder, slots=["logs"], rows=2, watch=lambda _: exporter.stop())
        exporter.run()
    assert ranges(disk) == [((0, 0), (0, 0)), ((0, 1), (0, 1))]
    assert source.acked == source.bundles[:2]


def test_a_source_that_is_closed_in_the_middle_of_a_look_ends_what_was_stopped(disk) -> None:
    def close_late(_: float | None) -> None:
        following.exporter.stop()
        raise ClosedError("the subscription is closed")

    following = Following(disk, *numbered(1))
    following.source.on_wait = close_late
    following.run()
    assert following.source.acked == following.source.bundles


def test_a_source_that_somebody_else_closed_is_an_error(disk) -> None:
    def close(_: float | None) -> None:
        raise ClosedError("the store is closed")

    source = FakeSource(numbered(1), on_wait=close)
    with pytest.raises(ClosedError):
        export(disk, source)
    assert (source.acked, source.given) == ([], [])


def test_a_file_is_told_of_once_its_bundles_are_acked(disk) -> None:
    source, told = FakeSource(numbered(3)), []
    export(disk, source, watch=lambda file: told.append((file, len(source.acked))))
    ((file, acked),) = told
    assert acked == file.bundle_count == 3
    assert file.row_count == 6
    name = file.path.rpartition("/")[2]
    assert read(name, bytes(disk.map(name))).num_rows == 6


@pytest.mark.parametrize("options", [{"to": "orc"}, {"size": "many"}])
def test_wrong_options_are_refused(disk, options) -> None:
    with pytest.raises(InputError):
        export(disk, FakeSource([]), **options)
