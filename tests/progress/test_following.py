"""Follow a source: states go with their bundles through log, segment and file, and no further."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from quiver.errors import CapacityError, ClosedError, InputError, LockedError, PoisonedError
from quiver.testing import MemoryDisk
from tests.kit.follow_kit import FILE, ROWS, killed, opened


@pytest.mark.parametrize("durability", ["sync", "interval", "segment"])
@pytest.mark.parametrize("end", ["close", "kill"])
def test_a_follower_goes_on_where_the_last_durable_bundle_ended(disk, durability, end) -> None:
    config = {"wal": {"durability": durability}}
    expected: dict[str, str] = {}
    for turn in range(4):
        store = opened(disk, **config)
        follower = store.follow("in")
        assert dict(follower.states) == expected == store.progress("in")
        assert follower.epoch == turn + 1
        for n in range(3):
            split = f"split {(turn + n) % 2}"
            expected[split] = f"{turn}.{n}"
            store.append({"s": ROWS}, progress=follower.at({split: expected[split]}))
            if n == turn:
                store.finalize()
        assert store.progress("in") == expected  # It flushes.
        assert store.progress("other") == {}
        if end == "close":
            store.close()
        else:
            killed(store)


def test_states_of_several_sources_and_splits_do_not_meet(disk) -> None:
    store = opened(disk)
    one, other = store.follow("one"), store.follow("other")
    store.append({"s": ROWS}, progress=one.at({"a": "1", "b": "1"}))
    store.append({"s": ROWS}, progress=other.at({"a": "2"}))
    store.append({"s": ROWS}, progress=one.at({"a": "3"}))
    store.append({"s": ROWS})
    store.close()
    store = opened(disk)
    assert store.progress("one") == {"a": "3", "b": "1"}
    assert store.progress("other") == {"a": "2"}


def test_what_comes_while_it_flushes_is_not_told_of(disk, monkeypatch) -> None:
    """It was not synced: whoever forgets its source up to there would lose it by a power cut."""
    store = opened(disk)
    follower = store.follow("in")
    store.append({"s": ROWS}, progress=follower.at({"a": "1"}))
    honest = store.flush

    def flush() -> None:
        honest()
        monkeypatch.undo()
        store.append({"s": ROWS}, wait=False, progress=follower.at({"a": "2"}))

    monkeypatch.setattr(store, "flush", flush)
    assert store.progress("in") == {"a": "1"}
    assert store.progress("in") == {"a": "2"}


def test_a_split_that_is_forgotten_does_not_come_back(disk) -> None:
    store = opened(disk)
    follower = store.follow("in")
    store.append({"s": ROWS}, progress=follower.at({"a": "1", "b": "1"}))
    store.finalize()
    store.append({"s": ROWS}, progress=follower.at({"a": None, "b": "2"}))
    store.close()
    assert opened(disk).progress("in") == {"b": "2"}


def test_one_at_a_time_follows_a_source(disk) -> None:
    store = opened(disk)
    first = store.follow("in")
    with pytest.raises(LockedError, match="'in' is followed already"):
        store.follow("in")
    neighbour = opened(disk, core=1)
    with pytest.raises(LockedError):
        neighbour.follow("in")
    late = first.at({"a": "late"})
    store.append({"s": ROWS}, progress=first.at({"a": "1"}))
    first.close()
    first.close()
    with neighbour.follow("in") as second:
        assert (second.epoch, dict(second.states)) == (2, {"a": "1"})
        neighbour.append({"s": ROWS}, progress=second.at({"a": "2"}))
        for who in (store, neighbour):
            with pytest.raises(ClosedError, match="not followed any more"):
                who.append({"s": ROWS}, progress=late)
    assert store.info().next_wal_seq == neighbour.info().next_wal_seq == 1
    assert store.progress("in") == neighbour.progress("in") == {"a": "2"}


def test_what_was_read_by_one_who_left_is_not_written_under_the_next_one(disk) -> None:
    store = opened(disk)
    first = store.follow("in")
    late = first.at({"a": "1"})
    first.close()
    with store.follow("in") as second:  # Of the same epoch: the first one wrote nothing.
        assert dict(second.states) == {}
        with pytest.raises(ClosedError, match="not followed any more"):
            store.append({"s": ROWS}, progress=late)
        store.append({"s": ROWS}, progress=second.at({"a": "1"}))
    assert store.info().next_wal_seq == 1


def test_without_a_log_a_follower_that_goes_leaves_nothing_that_only_it_knows(disk) -> None:
    store = opened(disk, wal={"durability": "segment"})
    follower = store.follow("in")
    store.append({"s": ROWS}, progress=follower.at({"a": "1"}))
    disk.fail(lambda act: "segments/" in act.path, error="ENOSPC", sticky=True)
    with pytest.raises(CapacityError):
        follower.close()
    neighbour = opened(disk, core=1, wal={"durability": "segment"})
    with pytest.raises(LockedError):
        neighbour.follow("in")
    with pytest.raises(ClosedError):
        store.append({"s": ROWS}, progress=follower.at({"a": "2"}))
    disk.heal()
    follower.close()
    assert dict(neighbour.follow("in").states) == {"a": "1"}


@pytest.mark.usefixtures("as_another_thread")
def test_who_waited_for_room_and_follows_no_more_writes_nothing(disk, monkeypatch) -> None:
    from quiver.engine import ingest

    store = opened(disk, retention={"size_cap": "1GiB"})
    follower = store.follow("in")
    make_room = ingest.make_room

    def wait(*args: Any, **options: Any) -> None:
        follower.close()
        make_room(*args, **options)

    monkeypatch.setattr(ingest, "make_room", wait)
    with pytest.raises(ClosedError, match="not followed any more"):
        store.append({"s": ROWS}, progress=follower.at({"a": "1"}))
    assert store.info().next_wal_seq == 0


def test_a_store_that_gave_up_lets_others_follow(disk) -> None:
    store = opened(disk)
    follower = store.follow("in")
    disk.fail(lambda act: act.path.endswith("quiver.wal"), error="EIO", sticky=True)
    with pytest.raises(PoisonedError):
        store.append({"s": ROWS}, progress=follower.at({"a": "1"}))
    disk.heal()
    follower.close()
    assert opened(disk, core=1).follow("in").epoch == 1


def test_an_entry_has_room_for_its_progress_or_is_refused(disk) -> None:
    store = opened(disk, limits={"entry_bytes": 2000})
    follower = store.follow("in")
    store.append({"s": ROWS}, progress=follower.at({"a": "x" * 1000}))
    with pytest.raises(InputError, match="the limit is"):
        store.append({"s": ROWS}, progress=follower.at({"a": "x" * 2000}))
    assert store.progress("in") == {"a": "x" * 1000}


def test_a_forked_child_that_lets_go_waits_for_nothing_and_the_parent_stays(disk) -> None:
    store = opened(disk)
    follower = store.follow("in")
    core, parent = store._core, store._core.owner
    core.owner = parent + 1
    with core.lock:  # As a thread had it that the child does not have.
        child = threading.Thread(target=follower.close, daemon=True)
        child.start()
        child.join(10)
        assert not child.is_alive()
    core.owner = parent
    with pytest.raises(LockedError):
        store.follow("in")
    store.append({"s": ROWS}, progress=follower.at({"a": "1"}))


def test_closing_the_store_lets_others_follow(disk) -> None:
    store = opened(disk)
    follower = store.follow("in")
    store.close()
    with pytest.raises(ClosedError):
        store.follow("in")
    assert opened(disk).follow("in").epoch == follower.epoch


def test_the_core_of_a_killed_writer_is_read_before_anybody_adopts_it(disk) -> None:
    first = opened(disk, core=0, wal={"durability": "interval"})
    follower = first.follow("in")
    first.append({"s": ROWS}, progress=follower.at({"a": "1", "b": "1"}))
    first.finalize()
    first.append({"s": ROWS}, progress=follower.at({"a": "2"}))
    killed(first)
    second = opened(disk, core=1)

    def syncs() -> int:
        return [str(op) for op in disk.history.ops].count("sync core_0/wal/quiver.wal")

    before = syncs()
    later = second.follow("in")
    assert (later.epoch, dict(later.states)) == (2, {"a": "2", "b": "1"})
    assert syncs() == before + 1  # It goes on behind bundles that no power cut takes.
    second.append({"s": ROWS}, progress=later.at({"a": "3"}))
    killed(second)
    assert opened(disk, core=0).progress("in") == {"a": "3", "b": "1"}


@pytest.mark.parametrize("what", ["s", 1, {"a": "1"}])
def test_what_is_no_progress_is_refused_before_anything_is_written(disk, what) -> None:
    store = opened(disk)
    with pytest.raises(InputError, match="progress is"):
        store.append({"s": ROWS}, progress=what)
    assert store.info().next_wal_seq == 0


@pytest.mark.parametrize("source", ["", "x" * 1025, "\ud800", 7])
def test_a_source_needs_a_name(disk, source) -> None:
    with pytest.raises(InputError):
        opened(disk).follow(source)


def test_states_may_not_outgrow_the_file(disk) -> None:
    store = opened(disk)
    follower = store.follow("in")
    large = "x" * (1 << 20)
    for n in range(15):
        store.append({"s": ROWS}, progress=follower.at({str(n): large}))
    with pytest.raises(InputError, match="the limit is 16,777,216"):
        store.append({"s": ROWS}, progress=follower.at({"15": large, "16": large}))
    store.append({"s": ROWS}, progress=follower.at({"3": large[1:]}))
    store.close()
    assert len(opened(disk).progress("in")) == 15


def test_without_progress_nothing_is_written_of_it(disk) -> None:
    store = opened(disk)
    store.append({"s": ROWS})
    store.finalize()
    store.close()
    assert disk.stat(FILE) is None
    assert disk.stat("followers") is None
    plain = MemoryDisk()
    other = opened(plain)
    other.append({"s": ROWS})
    assert plain.stat("core_0/wal/quiver.wal").size == disk.stat("core_0/wal/quiver.wal").size


def test_a_segment_that_alone_knows_a_state_stays_until_it_is_saved(disk) -> None:
    store = opened(disk, retention={"steady_state_headroom": 0})
    subscription, follower = store.subscribe("reader"), store.follow("in")
    store.append({"s": ROWS}, progress=follower.at({"a": "1"}))
    store.finalize()
    fault = disk.fail(lambda act: act.path.startswith(FILE), error="ENOSPC", sticky=True)
    store.append({"s": ROWS}, progress=follower.at({"a": "2"}))
    store.finalize()
    while (handle := subscription.poll()) is not None:
        handle.ack()
    with pytest.raises(CapacityError):
        store.maintain()
    assert [entry.name for entry in disk.list_dir("core_0/segments")] == ["0000000000000001.qseg"]
    assert fault.hits > 1
    assert store.progress("in") == {"a": "2"}
    disk.heal()
    store.maintain()
    assert disk.list_dir("core_0/segments") == []
    killed(store)
    assert opened(disk).progress("in") == {"a": "2"}


def test_what_drop_oldest_takes_from_the_log_stays_read(disk) -> None:
    from quiver.engine.dropping import drop_open

    store = opened(disk)
    follower = store.follow("in")
    store.append({"s": ROWS}, progress=follower.at({"a": "1"}))
    with store._core.lock:
        drop_open(store._core)
    assert store.progress("in") == {"a": "1"}
    store.close()
    assert opened(disk).progress("in") == {"a": "1"}
