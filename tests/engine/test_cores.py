"""Which core a writer gets, and what it shares with the others."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from store_kit import SLOTS, abandon, bundle, numbers

import quiver
from quiver.disk import LocalDisk, Lock
from quiver.engine import cores
from quiver.engine.budget import Static
from quiver.engine.cores import visiting
from quiver.engine.numbers import core_numbers

Opener = Callable[..., quiver.Store]
SMALL = {
    "wal": {"max_size": "8MiB"},
    "segment": {"target_size": "1MiB"},
    "limits": {"entry_bytes": "4MiB"},
}


LEAST = quiver.Config.of(SMALL).size_cap_min


def capped(parts: float, **retention: Any) -> dict[str, Any]:
    """Options with a cap that is so many times the least there may be."""
    return {**SMALL, "retention": {"size_cap": int(parts * LEAST), **retention}}


def core_of(store: quiver.Store) -> int:
    return store.info().core


def test_each_writer_gets_a_core_of_its_own(opener: Opener) -> None:
    assert [core_of(opener()) for _ in range(4)] == [0, 1, 2, 3]


def test_the_lowest_that_nobody_has_is_taken_before_a_new_one_is_made(opener: Opener) -> None:
    stores = [opener() for _ in range(4)]
    stores[2].close()
    stores[1].close()
    assert [core_of(opener()) for _ in range(3)] == [1, 2, 4]


def test_a_gap_between_the_folders_is_filled_last(opener: Opener) -> None:
    opener(core=2).close()
    assert [core_of(opener()) for _ in range(4)] == [2, 0, 1, 3]


def test_a_core_can_be_chosen(opener: Opener) -> None:
    store = opener(core=7)
    assert core_of(store) == 7
    with pytest.raises(quiver.LockedError):
        opener(core=7)


@pytest.mark.parametrize("core", [-1, 1024, True, "0", 1.0])
def test_what_is_no_core_is_refused(opener: Opener, path: Path, core: object) -> None:
    with pytest.raises(quiver.InputError, match="not a whole number from 0 to 1023"):
        opener(core=core)
    assert not path.exists()


def test_there_is_an_end_to_cores(opener: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "CORES_MAX", 2)
    stores = [opener(), opener()]
    with pytest.raises(quiver.LockedError, match=r"all 2 cores of .* are being written"):
        opener()
    stores[0].close()
    assert core_of(opener()) == 0


def test_what_is_refused_leaves_no_core_behind(opener: Opener, path: Path) -> None:
    opener()
    with pytest.raises(quiver.VersionError):
        opener(slots=["other"])
    assert core_numbers(LocalDisk(path)) == [0]


def test_processes_that_come_at_once_get_a_core_each(path: Path) -> None:
    code = f"""
import sys, quiver
store = quiver.open({str(path)!r}, slots=["events", "notes"])
print(store.info().core, flush=True)
sys.stdin.read()
"""
    command = [sys.executable, "-c", code]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    writers = [subprocess.Popen(command, **pipes) for _ in range(4)]
    try:
        assert sorted(int(writer.stdout.readline()) for writer in writers) == [0, 1, 2, 3]
    finally:
        for writer in writers:
            writer.communicate()


def test_who_loses_the_core_it_just_made_gets_the_next(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    opener()
    make_dir, faster = LocalDisk.make_dir, list[Lock]()

    def make_and_lose(disk: LocalDisk, path: str) -> None:
        make_dir(disk, path)
        if path == "core_1" and not faster:
            faster.append(disk.lock("core_1/LOCK"))

    monkeypatch.setattr(LocalDisk, "make_dir", make_and_lose)
    assert core_of(opener()) == 2
    faster[0].release()


def test_threads_that_come_at_once_get_a_core_each(path: Path) -> None:
    def open_one(_: int) -> quiver.Store:
        return quiver.open(path, slots=SLOTS, worker=False)

    with ThreadPoolExecutor(8) as pool:
        stores = list(pool.map(open_one, range(8)))
    assert sorted(core_of(store) for store in stores) == list(range(8))
    for store in stores:
        store.close()


def test_who_visits_a_core_is_waited_for(opener: Opener, path: Path) -> None:
    opener().close()
    with ThreadPoolExecutor(1) as pool:
        with visiting(LocalDisk(path), 0):
            opening = pool.submit(opener)
            assert not opening.done()
        assert core_of(opening.result(20)) == 0


def test_who_only_looks_whether_a_core_is_free_is_in_nobodys_way(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    opener().close()
    honest, glances = LocalDisk.lock, [0, 1, 2]

    def lock(disk: LocalDisk, path: str, *, wait: bool = False) -> Any:
        if path == "core_0/LOCK" and glances:
            glances.pop()
            raise quiver.LockedError("somebody looks", pid=1)
        return honest(disk, path, wait=wait)

    monkeypatch.setattr(LocalDisk, "lock", lock)
    assert core_of(opener()) == 0


def test_a_visitor_who_stays_is_not_waited_for_for_ever(
    opener: Opener, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opener().close()
    monkeypatch.setattr(cores, "_PATIENCE_SECONDS", 0)
    with visiting(LocalDisk(path), 0):
        assert core_of(opener()) == 1
        with pytest.raises(quiver.LockedError):
            opener(core=0)


def test_who_is_writing_is_not_visited(opener: Opener, path: Path) -> None:
    store = opener()
    with pytest.raises(quiver.LockedError), visiting(LocalDisk(path), 0):
        pass
    store.close()
    assert core_of(opener()) == 0


def test_fewer_writers_after_a_restart_take_up_the_lowest(opener: Opener) -> None:
    for store in [opener(), opener(), opener()]:
        store.append(bundle(core_of(store)))
        abandon(store)
    again = [opener(), opener()]
    assert [core_of(store) for store in again] == [0, 1]
    for number, store in enumerate(again):
        store.finalize()
        assert numbers(store) == [number]


def test_the_cap_is_divided_by_the_cores(opener: Opener) -> None:
    first = opener(capped(4))
    budget = first._core.budget
    assert isinstance(budget, Static)
    assert budget.allowed(0, 1) == 4 * LEAST
    second = opener(capped(4))
    assert second._core.budget.allowed(0, 1) == 2 * LEAST
    assert budget.allowed(0, 1) == 4 * LEAST
    assert budget.tick(0) is False
    assert budget.allowed(0, 1) == 2 * LEAST


@pytest.mark.parametrize("chosen", [None, 1])
def test_a_share_that_is_too_small_is_refused(
    opener: Opener, path: Path, chosen: int | None
) -> None:
    first = opener(capped(1.5))
    with pytest.raises(quiver.ConfigError, match="divided by 2 cores") as caught:
        opener(capped(1.5), core=chosen)
    assert str(LEAST) in str(caught.value)
    assert str(2 * LEAST) in caught.value.hint
    assert core_numbers(LocalDisk(path)) == [0]
    assert first._core.budget.allowed(0, 1) == int(1.5 * LEAST)


def test_with_too_many_folders_for_the_cap_none_is_opened(opener: Opener) -> None:
    for store in [opener(), opener(), opener()]:
        store.append(bundle(0))
        store.close()
    with pytest.raises(quiver.ConfigError, match="divided by 3 cores"):
        opener(capped(2.5))
    assert core_of(opener(capped(3))) == 0


def test_a_shared_cap_needs_room_for_the_reserves_of_all(opener: Opener) -> None:
    config = capped(1.2, coordination="shared")
    assert core_of(opener(config)) == 0
    assert core_of(opener(config)) == 1
    with pytest.raises(quiver.ConfigError, match="is needed for 3 cores"):
        opener(config)


def test_a_new_core_knows_the_subscribers_of_the_others(opener: Opener) -> None:
    first = opener()
    first.subscribe("reader")
    first.subscribe("resting")
    first.pause("resting")
    second = opener()
    assert second.info().subscribers == ("reader", "resting")
    second.append(bundle(0))
    second.finalize()
    assert second.maintain() == 0
    assert second.subscribe("resting").poll() is None
    assert numbers(second) == [0]
    assert second.maintain() == 0
    second.resume("resting")
    assert numbers(second, "resting") == [0]
    assert second.maintain() == 1


def test_a_core_that_has_data_keeps_its_own_subscribers(opener: Opener) -> None:
    first = opener()
    second = opener()
    second.append(bundle(0))
    second.close()
    first.subscribe("reader")
    assert opener(core=1).info().subscribers == ()


def test_who_cannot_be_read_stops_no_new_core(opener: Opener, path: Path) -> None:
    first = opener()
    first.subscribe("reader")
    first.close()
    (path / "core_0" / "acks" / "ack.log").write_bytes(b"nothing of the kind" * 100)
    assert opener(core=1).info().core == 1
