"""What is staged is in once, whole, and under numbers that nobody else has."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
from sink_kit import CLOCK, batch, let_in, opened, rows, segments, stage

import quiver
from quiver.config_file import config_of
from quiver.disk import LocalDisk
from quiver.engine import intake
from quiver.engine.migration import Changes, migrate
from quiver.errors import CapacityError, DamageError, InputError, LockedError, MissingError
from quiver.sink import Job, Stage, abort, names, tidy
from quiver.testing import ManualClock, MemoryDisk


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk()
    with opened(disk) as store:
        store.append({"events": batch(0)})
    return disk


def staged_names(disk) -> list[str]:
    return [] if disk.stat("staging") is None else [e.name for e in disk.list_dir("staging")]


def test_nothing_is_visible_before_the_commit_and_all_of_it_behind(disk) -> None:
    job = Job("one")
    parts = [stage(disk, job, str(task), range(task * 10, task * 10 + 5)) for task in (1, 2)]
    assert rows(disk) == [0]
    assert len(staged_names(disk)) == 2
    made = let_in(disk, job, *parts)
    assert (made.core, made.row_count, made.is_repeated) == (0, 10, False)
    assert rows(disk) == [0, *range(10, 15), *range(20, 25)]
    assert made.segment_seqs == (1,)  # Small ones are joined.
    assert staged_names(disk) == []


def test_large_files_keep_their_streams_and_small_ones_are_joined(disk) -> None:
    job, size = Job("one"), {"segment": {"target_size": "256KiB"}}
    parts = [
        stage(disk, job, "a", [1], **size),
        stage(disk, job, "b", [2], **size),
        stage(disk, job, "c", range(3, 40_003), per_bundle=10_000, **size),
        stage(disk, job, "d", [40_003], **size),
    ]
    assert [len(part.files) for part in parts] == [1, 1, 1, 1]
    made = let_in(disk, job, *parts, **size)
    assert (
        len(made.segment_seqs) == 3
    )  # The small ones in front, the large one, and what is behind it.
    assert [len(values) for values in segments(disk).values()] == [1, 2, 40_000, 1]
    assert rows(disk) == list(range(40_004))
    with opened(disk) as store:  # Numbers go on behind.
        assert store.append({"events": batch(40_004)}) == 8
    assert rows(disk) == list(range(40_005))


def test_what_the_log_still_has_comes_first(disk) -> None:
    store = opened(disk)
    store.append({"events": batch(1)})
    store._core.held.release()  # As kill -9 leaves it.
    store._closed = True
    job = Job("one")
    let_in(disk, job, stage(disk, job, "a", [2, 3]))
    assert rows(disk) == [0, 1, 2, 3]
    with opened(disk) as store:
        assert not store.recovery.damage
        assert store.recovery.replayed_bundles == 0
        store.append({"events": batch(4)})
    assert rows(disk) == [0, 1, 2, 3, 4]


def test_the_numbers_go_on_and_no_log_entry_seems_lost(disk) -> None:
    for number in range(1, 7, 2):
        job = Job(f"job-{number}", "sink", number)
        let_in(disk, job, stage(disk, job, "a", [number]))
        store = opened(disk)
        assert not store.recovery.damage
        store.append({"events": batch(number + 1)})
        store._core.held.release()
        store._closed = True
    with opened(disk) as store:
        assert not store.recovery.damage
    assert rows(disk) == list(range(7))


def test_a_batch_that_is_in_is_passed_over_whoever_staged_it(disk) -> None:
    for attempt in ("first", "second", "third"):
        job = Job(attempt, "sink", 4)
        part = stage(disk, job, "a", [1, 2])
        made = let_in(disk, job, part)
        assert made.is_repeated is (attempt != "first")
        assert (made.core, made.segment_seqs, made.row_count) == (0, (1,), 2)
        assert rows(disk) == [0, 1, 2]
        assert staged_names(disk) == []
    for batch_id in (5, 9):  # A batch without rows leaves no trace: numbers may be missing.
        job = Job("next", "sink", batch_id)
        let_in(disk, job, stage(disk, job, "a", [batch_id]))
    assert rows(disk) == [0, 1, 2, 5, 9]


def test_a_batch_older_than_the_last_is_refused_aloud(disk) -> None:
    for batch_id in (0, 1):
        job = Job("run", "sink", batch_id)
        let_in(disk, job, stage(disk, job, "a", [batch_id + 1]))
    job = Job("again", "sink", 0)
    with pytest.raises(InputError, match="comes after batch 1") as caught:
        let_in(disk, job, stage(disk, job, "a", [7]))
    assert "checkpoint" in caught.value.hint
    assert rows(disk) == [0, 1, 2]


def test_sinks_know_nothing_of_each_other(disk) -> None:
    for sink, value in (("one", 1), ("two", 2), ("", 3), ("", 4)):
        job = Job(f"run-{value}", sink, 0)
        assert not let_in(disk, job, stage(disk, job, "a", [value])).is_repeated
    assert rows(disk) == [0, 1, 2, 3, 4]


def test_attempts_that_lost_are_removed_and_other_sinks_are_left_alone(disk) -> None:
    job = Job("run", "sink", 0)
    stage(disk, job, "0-speculative", [1])
    stage(disk, Job("dead", "sink", 0), "0", [1])
    stage(disk, Job("dead", "sink2", 0), "0", [1])
    stage(disk, Job("alive"), "0", [5])
    let_in(disk, job, stage(disk, job, "0", [1]))
    assert rows(disk) == [0, 1]
    assert staged_names(disk) == ["_.alive.0.0.qseg", "sink2.dead.0.0.qseg"]


def test_a_batch_without_rows_is_no_batch(disk) -> None:
    job = Job("run", "sink", 0)
    made = let_in(disk, job, stage(disk, job, "a", []))
    assert (made.core, made.segment_seqs) == (None, ())
    assert disk.stat("sinks") is None


def test_abort_takes_back_what_is_not_in(disk) -> None:
    job, other = Job("run", "sink", 0), Job("other", "sink", 0)
    part = stage(disk, job, "a", [1])
    stage(disk, job, "nobody told of", [2])
    stage(disk, other, "a", [3])
    abort(disk, None, [part])
    assert staged_names(disk) == ["sink.other.a.0.qseg", "sink.run.nobody told of.0.qseg"]
    abort(disk, job, [])
    assert staged_names(disk) == ["sink.other.a.0.qseg"]
    with pytest.raises(MissingError, match="is gone"):
        let_in(disk, job, part)
    assert rows(disk) == [0]


def test_a_core_that_is_written_is_left_alone_and_the_sink_stays_where_it_was(disk) -> None:
    with opened(disk) as writer:
        job = Job("run", "sink", 0)
        assert let_in(disk, job, stage(disk, job, "a", [1])).core == 1
        writer.append({"events": batch(2)})
    job = Job("run", "sink", 1)
    assert let_in(disk, job, stage(disk, job, "a", [3])).core == 1  # Core 0 is free as well.
    with opened(disk, core=1):
        job = Job("run", "sink", 2)
        assert let_in(disk, job, stage(disk, job, "a", [4])).core == 0
    assert segments(disk) == {(0, 0): [0], (0, 1): [2], (0, 2): [4], (1, 0): [1], (1, 1): [3]}


def test_a_new_core_knows_the_subscribers(disk) -> None:
    with opened(disk) as writer:
        writer.subscribe("reader")
        job = Job("run")
        assert let_in(disk, job, stage(disk, job, "a", [1])).core == 1
    with opened(disk, core=1) as store:
        assert "reader" in store._core.registry
        handle = store.subscribe("reader").poll()
        assert handle["events"].column("n").to_pylist() == [1]
        handle.ack()


def test_a_subscriber_of_the_store_gets_each_row_once(tmp_path) -> None:
    with quiver.open(tmp_path, slots=["events"], worker=False) as store:
        store.append({"events": batch(0)})
        store.subscribe("reader")
    disk = LocalDisk(tmp_path)
    for batch_id in range(3):
        job = Job("run", "sink", batch_id)
        parts = [stage(disk, job, t, [10 * batch_id + n]) for n, t in enumerate("ab", 1)]
        let_in(disk, job, *parts)
        let_in(disk, job, *parts)
    found = []
    with quiver.open(tmp_path, worker=False) as store:
        reader = store.subscribe("reader")
        while (handle := reader.poll()) is not None:
            with handle:
                found += handle["events"].column("n").to_pylist()
    assert found == [0, 1, 2, 11, 12, 21, 22]
    disk.close()


def test_bundles_of_other_columns_and_several_slots(disk) -> None:
    job = Job("run")
    stage = Stage(disk, job, "a", config=config_of({}), clock=CLOCK)
    words = pa.array(["x", "y", "x"]).dictionary_encode()
    stage.add({"events": pa.record_batch({"w": words}), "notes": batch(1)})
    stage.add({"events": pa.record_batch({"n": pa.array([2.5])})})
    one = stage.finish()
    stage = Stage(disk, job, "b", config=config_of({}), clock=CLOCK)
    stage.add({"notes": batch(3)})
    let_in(disk, job, one, stage.finish())
    with opened(disk) as store:
        reader = store.subscribe("reader")
        bundles = []
        while (handle := reader.poll()) is not None:
            with handle:
                bundles.append(dict(handle))
    assert bundles[1]["events"].column("w") == words
    assert bundles[1]["notes"] == batch(1)
    assert bundles[2]["events"].column("n").to_pylist() == [2.5]
    assert [list(bundle) for bundle in bundles[3:]] == [["notes"]]


@pytest.mark.parametrize("count", [1, 2])
def test_a_staged_file_that_is_damaged_lets_nothing_in(disk, count) -> None:
    job = Job("run", "sink", 0)
    parts = [stage(disk, job, str(n), [n]) for n in range(count)]
    file = disk.open(parts[-1].files[0], writable=True)
    file.write(200, b"\xff\xfe")
    with pytest.raises(DamageError):
        let_in(disk, job, *parts)
    assert rows(disk) == [0]
    with opened(disk) as store:
        assert not store.recovery.damage
    assert [e.name for e in disk.list_dir("core_0/segments")] == ["0000000000000000.qseg"]


@pytest.mark.parametrize("per_bundle", [2, 20_000])
def test_what_was_staged_for_a_slot_that_is_another_now_is_refused(disk, per_bundle) -> None:
    job, size = Job("one"), {"segment": {"target_size": "256KiB"}}
    stage = Stage(disk, job, "a", config=config_of(size), clock=CLOCK)
    stage.add({"notes": batch(*range(per_bundle))})
    part = stage.finish()
    with opened(disk) as store:
        kept = store.slots
    changes = Changes(drop=("notes",), add={"orders": kept["notes"].slot_id})
    migrate(disk, changes, config=config_of(size), clock=CLOCK)
    with pytest.raises(InputError, match="staged for slot 'notes', which was migrated"):
        let_in(disk, job, part, **size)
    assert rows(disk) == [0]


def test_a_slot_that_is_not_there_and_an_empty_folder_are_refused(disk) -> None:
    stage = Stage(disk, Job("run"), "a", config=config_of({}), clock=CLOCK)
    with pytest.raises(InputError, match="nowhere"):
        stage.add({"nowhere": batch(1)})
    with pytest.raises(MissingError):
        Stage(MemoryDisk(), Job("run"), "a", config=config_of({}), clock=CLOCK)
    for name, sink in (("", "sink"), ("a.b", ""), ("a", "_x"), ("a", "x/y"), ("a", "x" * 111)):
        with pytest.raises(InputError, match="cannot name"):
            Job(name, sink)


def test_what_is_old_is_tidied_up_and_what_is_young_is_not(tmp_path) -> None:
    with quiver.open(tmp_path, slots=["events"], worker=False):
        pass
    disk = LocalDisk(tmp_path)
    stage(disk, Job("run"), "a", [1])
    now = disk.list_dir("staging")[0].modified_ns
    day = 24 * 3600 * 10**9
    assert tidy(disk, clock=ManualClock(wall_ns=now + day)).left_count == 1
    found = tidy(disk, clock=ManualClock(wall_ns=now + day + 1))
    assert (found.removed_count, found.left_count, found.left_bytes) == (1, 0, 0)
    assert staged_names(disk) == []
    disk.close()


def test_a_sink_that_somebody_else_commits_is_waited_for_no_longer_than_patience(
    disk, monkeypatch
) -> None:
    monkeypatch.setattr("quiver.sink.commits._PATIENCE_SECONDS", 0.0)
    job = Job("run", "sink", 0)
    disk.make_dir("sinks")
    lock = disk.lock("sinks/sink.lock")
    with pytest.raises(LockedError):
        let_in(disk, job, stage(disk, job, "a", [1]))
    lock.release()
    let_in(disk, job, stage(disk, job, "a", [1]))
    assert rows(disk) == [0, 1]


@pytest.mark.parametrize("kind", ["memory", "real"])
def test_a_full_store_lets_nothing_in_and_loses_nothing(disk, tmp_path, kind) -> None:
    if kind == "real":
        disk = LocalDisk(tmp_path)
        with opened(disk) as store:
            store.append({"events": batch(0)})
    cap = {
        "retention": {"size_cap": "1MiB"},
        "segment": {"target_size": "64KiB"},
        "wal": {"max_size": "128KiB"},
        "limits": {"entry_bytes": "100KiB"},
    }
    job = Job("run", "sink", 0)
    with pytest.raises(CapacityError, match="what is staged among it"):
        stage(disk, job, "a", range(400_000), per_bundle=10_000, **cap)
    assert rows(disk) == [0]
    assert staged_names(disk)
    abort(disk, job, [])
    part = stage(disk, job, "a", range(1, 70_000), per_bundle=10_000, **cap)
    with pytest.raises(CapacityError, match="the store is full"):
        let_in(disk, job, part, **cap)
    assert rows(disk) == [0]
    let_in(disk, job, part)  # Where there is room, it is still there.
    assert len(rows(disk)) == 70_000


def test_under_drop_oldest_a_sink_goes_on_and_what_is_only_staged_drops_nothing(disk) -> None:
    cap = {
        "retention": {"size_cap": "1MiB", "size_cap_policy": "drop_oldest"},
        "segment": {"target_size": "64KiB"},
        "wal": {"max_size": "128KiB"},
        "limits": {"entry_bytes": "100KiB"},
    }
    with opened(disk, **cap) as store:
        store.subscribe("slow")
    for number in range(12):
        job = Job(f"run-{number}", "sink", number)
        part = stage(disk, job, "a", [number] * 16_000, per_bundle=4000, **cap)
        let_in(disk, job, part, **cap)
    left = rows(disk)
    assert left[-16_000:] == [11] * 16_000
    assert len(left) < 12 * 16_000
    job = Job("large", "sink", 12)
    with pytest.raises(CapacityError, match="drop_oldest drops for what is let in"):
        stage(disk, job, "a", range(100_000), per_bundle=4000, **cap)
    assert rows(disk) == left


def test_the_page_of_the_format_has_all_keys(disk, monkeypatch) -> None:
    page = Path(names.__file__).with_name("FORMAT.md").read_text()
    job, written = Job("run", "sink", 3), {}
    decide = intake.decide

    def spy(disk, number, taken) -> None:
        decide(disk, number, taken)
        written.update(json.loads(disk.open("core_0/intake.json").read(0, 1 << 20).splitlines()[0]))

    monkeypatch.setattr(intake, "decide", spy)
    let_in(disk, job, stage(disk, job, "a", [1]))
    assert set(written) == set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    record = json.loads(disk.open("sinks/sink.json").read(0, 1 << 20).splitlines()[0])
    assert set(record) == set(written) - {"staged"} | {"core"}
    assert all(f"`{key}`" in page for key in record)


@pytest.mark.parametrize("coordination", ["static", "shared"])
def test_what_is_staged_counts_for_the_cap_of_who_appends(disk, coordination) -> None:
    cap = {
        "retention": {"size_cap": "1MiB", "coordination": coordination},
        "segment": {"target_size": "64KiB"},
        "wal": {"max_size": "128KiB"},
        "limits": {"entry_bytes": "100KiB"},
    }
    job = Job("run")
    stage(disk, job, "a", range(110_000), per_bundle=10_000)
    with opened(disk, **cap) as store:

        def fill() -> int:
            for count in range(40):
                try:
                    store.append({"events": batch(*range(8_000))}, timeout=0)
                except CapacityError:
                    return count
                store.finalize()
            return 40

        assert fill() < 3
        abort(disk, job, [])
        store.maintain()
        assert fill() > 3
