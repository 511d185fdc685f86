"""A watch wakes whoever waits for a change, misses none, and lets go of what it holds."""

from __future__ import annotations

import errno
import gc
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import pytest

from quiver.disk import FolderDisk, LocalDisk, Stat, Watch, replace
from quiver.disk.calls import open_inotify, watch_folder
from quiver.errors import StorageError
from quiver.testing import MemoryDisk

LONG = 60.0
SOON = 0.001


@pytest.fixture
def disk(tmp_path: Path) -> LocalDisk:
    return LocalDisk(tmp_path)


@pytest.fixture(params=["inotify", "polling"])
def watch_of(request, monkeypatch) -> Callable[..., Watch]:
    """Make watches of one kind, and see that they are of that kind."""
    if request.param == "polling":
        refuse(monkeypatch, errno.ENOSYS)

    def make(disk: LocalDisk, *folders: str) -> Watch:
        watch = Watch(disk, folders, every=SOON)
        assert watch.is_polling == (request.param == "polling")
        return watch

    return make


def refuse(monkeypatch, number: int) -> None:
    def open_nothing() -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(import_module("quiver.disk.watch"), "open_inotify", open_nothing)


@contextmanager
def waiting(watch: Watch, timeout: float | None = LONG) -> Iterator[list[bool]]:
    """Let a thread wait for the length of a block, which has to end that."""
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(watch.wait(timeout)))
    thread.start()
    yield found
    thread.join(LONG)
    assert not thread.is_alive()


def count_descriptors() -> int:
    """Count pipes and inotify: sockets and the like close when they like, behind other tests."""
    gc.collect()  # What others left open is closed now, and not between two counts.
    kinds = [str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    return sum(kind.startswith("pipe:") or "inotify" in kind for kind in kinds)


def test_nothing_happens_and_the_time_passes(disk, watch_of) -> None:
    with watch_of(disk, "") as watch:
        assert not watch.wait(0)
        assert not watch.wait(SOON)
        assert not watch.wait(-1)


CHANGES = {
    "created": lambda path: (path / "new").touch(),
    "renamed into": lambda path: (path.parent / "outside").rename(path / "new"),
    "renamed away": lambda path: (path / "old").rename(path.parent / "gone"),
    "renamed inside": lambda path: (path / "old").rename(path / "new"),
    "written": lambda path: (path / "old").write_text("more"),
    "deleted": lambda path: (path / "old").unlink(),
    "a folder": lambda path: (path / "folder").mkdir(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_wakes_a_thread_that_waits_and_counts_before_that(
    disk, tmp_path, watch_of, change
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "old").touch()
    (tmp_path / "outside").touch()
    with watch_of(disk, "folder") as watch:
        with waiting(watch) as found:
            change(folder)
        assert found == [True]
    folder = tmp_path / "second"
    folder.mkdir()
    (folder / "old").touch()
    (tmp_path / "outside").touch()
    with watch_of(disk, "second") as watch:
        change(folder)
        assert watch.wait(0)


def test_a_file_that_is_replaced_wakes(disk, watch_of) -> None:
    replace(disk, "file", b"one")
    with watch_of(disk, "") as watch:
        replace(disk, "file", b"another")
        assert watch.wait(LONG)


def test_each_of_several_folders_counts(disk, tmp_path, watch_of) -> None:
    for name in "abc":
        (tmp_path / name).mkdir()
    with watch_of(disk, "a", "b") as watch:
        (tmp_path / "c" / "new").touch()
        assert not watch.wait(0)
        for name in "ba":
            (tmp_path / name / "new").touch()
            assert watch.wait(LONG)


def test_a_folder_may_be_made_later(disk, tmp_path, watch_of) -> None:
    folder = tmp_path / "core_0" / "segments"
    with watch_of(disk, "core_0/segments") as watch:
        folder.parent.mkdir()
        drain(watch)
        folder.mkdir()
        assert watch.wait(LONG)
        (folder / "one").touch()
        assert watch.wait(LONG)
        drain(watch)
        with waiting(watch) as found:
            (folder / "two").touch()
        assert found == [True]


def test_a_folder_made_whole_at_once_is_seen_and_watched(disk, tmp_path, watch_of) -> None:
    made = tmp_path / "made"
    (made / "segments").mkdir(parents=True)
    with watch_of(disk, "core_0/segments") as watch:
        drain(watch)
        made.rename(tmp_path / "core_0")
        assert watch.wait(LONG)
        drain(watch)
        (tmp_path / "core_0" / "segments" / "one").touch()
        assert watch.wait(LONG)


@pytest.mark.parametrize("moved", ["core_0", "core_0/segments"])
def test_a_folder_that_takes_the_place_of_another_is_watched(
    disk, tmp_path, watch_of, moved
) -> None:
    folder = tmp_path / "core_0" / "segments"
    folder.mkdir(parents=True)
    with watch_of(disk, "core_0/segments") as watch:
        (tmp_path / moved).rename(tmp_path / "moved")
        assert watch.wait(LONG)
        folder.mkdir(parents=True)
        assert watch.wait(LONG)
        drain(watch)
        (folder / "one").touch()
        assert watch.wait(LONG)


def test_a_folder_that_is_deleted_and_made_again_is_watched(disk, tmp_path, watch_of) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with watch_of(disk, "folder") as watch:
        for _ in range(3):
            folder.rmdir()
            assert watch.wait(LONG)
            folder.mkdir()
            assert watch.wait(LONG)
        drain(watch)
        (folder / "one").touch()
        assert watch.wait(LONG)


def test_no_folder_made_while_it_is_looked_for_is_missed(disk, tmp_path, monkeypatch) -> None:
    """The moment between the look for a folder and the watch on the one above."""
    folder = tmp_path / "folder"

    def add(descriptor: int, path: str, mask: int) -> int:
        try:
            return watch_folder(descriptor, path, mask)
        finally:
            if path == str(folder) and not folder.exists():
                folder.mkdir()

    monkeypatch.setattr(import_module("quiver.disk.watch"), "watch_folder", add)
    with Watch(disk, ["folder"]) as watch:
        (folder / "one").touch()
        assert watch.wait(LONG)


def test_what_is_written_above_a_folder_does_not_wake(disk, tmp_path) -> None:
    (tmp_path / "core_0" / "segments").mkdir(parents=True)
    (tmp_path / "core_0" / "file").touch()
    with Watch(disk, ["core_0/segments"]) as watch:
        (tmp_path / "core_0" / "file").write_text("text")
        assert not watch.wait(0)


def drain(watch: Watch) -> None:
    while watch.wait(0):
        pass


def test_another_thread_may_wake_whoever_waits(disk, watch_of) -> None:
    with watch_of(disk, "") as watch:
        with waiting(watch, None) as found:
            watch.wake()
        assert found == [True]
        watch.wake()
        watch.wake()
        assert watch.wait(None)
        assert not watch.wait(0)


@pytest.mark.parametrize("end", [Watch.stop, Watch.close])
def test_an_end_wakes_and_is_final(disk, watch_of, end) -> None:
    before = count_descriptors()
    watch = watch_of(disk, "")
    with waiting(watch, None) as found:
        end(watch)
    assert (found, watch.wait(None)) == ([False], False)
    assert watch.closed is (count_descriptors() == before) is (end is Watch.close)
    watch.close()
    watch.wake()
    assert count_descriptors() == before


def test_descriptors_go_with_the_watch(disk, tmp_path, watch_of) -> None:
    before = count_descriptors()
    for _ in range(20):
        with watch_of(disk, "", "later/than/this") as watch:
            (tmp_path / "file").touch()
            (tmp_path / "file").unlink()
            watch.wait(0)
    assert count_descriptors() == before


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_without_inotify_listings_are_compared(disk, tmp_path, monkeypatch, number) -> None:
    refuse(monkeypatch, number)
    with Watch(disk, [""]) as watch:
        assert watch.is_polling
        (tmp_path / "file").touch()
        assert watch.wait(0)
        with (tmp_path / "file").open("w") as file:  # Which inotify tells at its close.
            file.write("text")
            file.flush()
            assert watch.wait(0)


def test_without_room_for_a_watch_listings_are_compared(disk, tmp_path, monkeypatch) -> None:
    def add(*_: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    before = count_descriptors()
    monkeypatch.setattr(import_module("quiver.disk.watch"), "watch_folder", add)
    with Watch(disk, [""]) as watch:
        assert watch.is_polling
        assert count_descriptors() == before + 2
        (tmp_path / "file").touch()
        assert watch.wait(0)


def test_a_watch_that_runs_out_of_room_goes_on_by_comparing(disk, tmp_path, monkeypatch) -> None:
    def add(*_: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    before = count_descriptors()
    with Watch(disk, ["folder"]) as watch:
        assert not watch.is_polling
        monkeypatch.setattr(import_module("quiver.disk.watch"), "watch_folder", add)
        (tmp_path / "folder").mkdir()
        assert watch.wait(LONG)
        assert watch.is_polling
        assert not watch.wait(0)
        (tmp_path / "folder" / "one").touch()
        assert watch.wait(0)
    assert count_descriptors() == before


def test_a_root_that_is_gone_is_no_reason_to_fail(tmp_path) -> None:
    disk = LocalDisk(tmp_path / "root", create=True)
    with Watch(disk, ["folder"]) as watch:
        disk.close()
        (tmp_path / "root").rmdir()
        assert watch.wait(LONG)
        assert not watch.wait(0)


def test_a_folder_deleted_while_somebody_has_it_open_is_watched_when_it_is_made_again(
    disk, tmp_path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with Watch(disk, ["folder"]) as watch:
        held = os.open(folder, os.O_RDONLY)
        try:
            folder.rmdir()
            assert watch.wait(LONG)
            folder.mkdir()
            drain(watch)
            (folder / "file").touch()
            assert watch.wait(LONG)
        finally:
            os.close(held)


def test_a_place_that_cannot_be_listed_is_waited_for(disk, tmp_path, monkeypatch) -> None:
    refuse(monkeypatch, errno.EMFILE)
    (tmp_path / "folder").mkdir()

    def refused(_: str) -> list[Stat]:
        raise StorageError("cannot list")

    with monkeypatch.context() as patch:
        patch.setattr(disk, "list_dir", refused)
        watch = Watch(disk, ["folder"])
        assert not watch.wait(0)
    with watch:
        assert watch.wait(0)


def test_other_disks_are_compared() -> None:
    disk = MemoryDisk()
    with Watch(disk, ["folder"], every=SOON) as watch:
        assert watch.is_polling
        disk.make_dir("folder")
        assert watch.wait(0)
        with waiting(watch) as found:
            disk.create("folder/file").close()
        assert found == [True]
        assert not watch.wait(0)


def test_a_folder_as_a_disk_is_compared(disk, tmp_path) -> None:
    (tmp_path / "inside").mkdir()
    with Watch(FolderDisk(disk, "inside"), [""]) as watch:
        assert watch.is_polling
        (tmp_path / "inside" / "file").touch()
        assert watch.wait(0)


def test_more_events_than_the_system_keeps_count_as_one(disk, tmp_path) -> None:
    kept = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    with Watch(disk, [""]) as watch:
        for number in range(kept // 4 + 10):  # Each makes four, of which none is like the last.
            path = tmp_path / str(number)
            path.touch()
            path.rename(tmp_path / "file")
        assert watch.wait(0)
        drain(watch)
        (tmp_path / "one more").touch()
        assert watch.wait(0)


def test_the_system_says_why_it_refuses() -> None:
    descriptor = open_inotify()
    try:
        with pytest.raises(FileNotFoundError):
            watch_folder(descriptor, "/there/is/nothing", 1)
        with pytest.raises(NotADirectoryError):
            watch_folder(descriptor, __file__, 1)
    finally:
        os.close(descriptor)


def test_a_system_without_the_call_says_so(monkeypatch) -> None:
    monkeypatch.setattr(import_module("quiver.disk.calls"), "_libc", object())
    with pytest.raises(OSError, match="not implemented") as caught:
        open_inotify()
    assert caught.value.errno == errno.ENOSYS


def test_every_change_of_a_busy_folder_is_seen_in_the_end(disk, tmp_path, watch_of) -> None:
    """One thread makes files, one looks each time that it is told: it ends with all of them."""
    folder = tmp_path / "folder"
    count = 300

    def make() -> None:
        folder.mkdir()
        for number in range(count):
            (tmp_path / "temporary").touch()
            (tmp_path / "temporary").rename(folder / str(number))

    with watch_of(disk, "folder") as watch:
        maker = threading.Thread(target=make)
        maker.start()
        while not folder.exists() or len(list(folder.iterdir())) < count:
            assert watch.wait(LONG)
        maker.join()
