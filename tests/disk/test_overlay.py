"""An overlay behaves as the disk below would, and leaves that as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from quiver.disk import Disk, HeldDisk, LocalDisk, OverlayDisk
from quiver.disk.overlay import _BLOCK
from quiver.errors import LockedError, MissingError, QuiverError, StorageError
from quiver.testing import MemoryDisk

PATHS = st.sampled_from(["a", "b", "d", "d/a", "d/b", "new/a", "missing/a"])
FILES = st.sampled_from(["a", "b", "d/a", "d/b", "new/a", "missing/a"])
OFFSETS = st.sampled_from([0, 1, 4096, _BLOCK - 1, _BLOCK, 2 * _BLOCK + 5, 3 * _BLOCK])
STEPS = st.one_of(
    st.tuples(st.just("create"), PATHS),
    st.tuples(st.just("write"), PATHS, OFFSETS, st.binary(min_size=1, max_size=40)),
    st.tuples(st.just("truncate"), PATHS, OFFSETS),
    st.tuples(st.just("punch"), PATHS, OFFSETS, OFFSETS),
    st.tuples(st.just("make_dir"), st.sampled_from(["new", "d", "missing/d"])),
    st.tuples(st.just("rename"), FILES, st.sampled_from(["a", "b", "d/a", "new/a"])),
    st.tuples(st.just("unlink"), PATHS),
    st.tuples(st.just("sync_dir"), PATHS),
    st.tuples(st.just("read"), PATHS, OFFSETS, OFFSETS),
)


def base() -> MemoryDisk:
    """Give two files and a folder; the larger file has a hole."""
    disk = MemoryDisk()
    disk.make_dir("d")
    for path, size in (("a", 3 * _BLOCK + 17), ("d/a", 100)):
        file = disk.create(path)
        file.write(0, (bytes(range(251)) * (size // 251 + 1))[:size])
        file.close()
    file = disk.open("a", writable=True)
    file.punch(_BLOCK, _BLOCK)
    return disk


def outcome(disk: Disk, step: tuple[Any, ...]) -> object:
    name, path, *rest = step
    try:
        if name == "create":
            disk.create(path).close()
            return None
        if name in ("rename", "unlink", "make_dir", "sync_dir"):
            getattr(disk, name)(path, *rest)
            return None
        file = disk.open(path, writable=name != "read")
        try:
            return getattr(file, name)(*rest)
        finally:
            file.close()
    except QuiverError as error:
        return next(kind for kind in (MissingError, QuiverError) if isinstance(error, kind))


def listing(disk: Disk, folder: str = "") -> list[tuple[str, bytes | None]]:
    found: list[tuple[str, bytes | None]] = []
    for entry in disk.list_dir(folder):
        path = f"{folder}/{entry.name}".lstrip("/")
        if not entry.is_file:
            found += [(path, None), *listing(disk, path)]
            continue
        data = bytes(disk.map(path))
        file = disk.open(path)
        assert entry.size == len(data) == file.size()
        assert file.read(0, len(data) + 1) == data
        at: int | None = 0
        while at is not None and at < len(data):
            start = file.next_data(at)
            assert not any(data[at:start])
            at = None if start is None else start + _BLOCK
        file.close()
        found.append((path, data))
    return found


@settings(max_examples=80, deadline=None)
@example(steps=[("rename", "a", "b"), ("write", "b", 1, b"x"), ("create", "a")])
@example(steps=[("truncate", "a", 1), ("truncate", "a", 2 * _BLOCK + 5)])
@example(steps=[("punch", "a", 1, 3 * _BLOCK), ("write", "a", _BLOCK, b"x")])
@example(steps=[("unlink", "d/a"), ("create", "d/a"), ("unlink", "d/a")])
@given(steps=st.lists(STEPS, max_size=10))
def test_an_overlay_does_what_the_disk_would_do(steps: list[tuple[Any, ...]]) -> None:
    below, twin = base(), base()
    before = below.tree.digest()
    overlay = OverlayDisk(below)
    try:
        for step in steps:
            assert outcome(overlay, step) == outcome(twin, step), step
        assert listing(overlay) == listing(twin)
        old, new = dict(listing(below)), dict(listing(overlay))
        for path, change in overlay.changes().items():
            assert (change == "made") == (path not in old)
            assert (change == "removed") == (path not in new)
        touched = {path for path in old.keys() | new if old.get(path) != new.get(path)}
        assert touched - {"new"} <= overlay.changes().keys()
    finally:
        overlay.close()
    assert below.tree.digest() == before


def test_large_changes_leave_the_memory(tmp_path: Path) -> None:
    below = LocalDisk(tmp_path)
    overlay = OverlayDisk(below)
    file = overlay.create("large")
    piece = bytes(range(256)) * 4096
    for place in range(80):
        file.write(place * len(piece), piece)
    assert overlay._spool._file._rolled
    assert file.read(70 * len(piece), len(piece)) == piece
    assert below.list_dir("") == []
    overlay.close()
    below.close()


def test_what_is_not_changed_is_mapped_and_not_copied(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    below = LocalDisk(tmp_path)
    overlay = OverlayDisk(below)
    assert bytes(overlay.map("a")) == b"abc"
    overlay.open("a", writable=True).close()
    assert overlay.changes() == {}
    assert overlay.locate("a") == str(tmp_path / "a")
    assert overlay._spool._count == 0
    overlay.close()
    below.close()


def test_a_file_is_used_as_it_was_opened() -> None:
    overlay = OverlayDisk(base())
    overlay.open("a", writable=True).write(0, b"x")
    file = overlay.open("a")
    with pytest.raises(StorageError):
        file.write(0, b"y")
    file.close()
    with pytest.raises(StorageError):
        file.size()
    overlay.close()


def test_a_lock_of_an_overlay_is_its_own() -> None:
    below = base()
    overlay = OverlayDisk(below)
    lock = overlay.lock("LOCK")
    with pytest.raises(LockedError):
        overlay.lock("LOCK")
    below.lock("LOCK").release()
    lock.release()
    overlay.lock("LOCK").release()
    overlay.close()


def test_held_locks_are_lent_and_given_up_at_the_end() -> None:
    below = base()
    with HeldDisk(below, ["LOCK", "d/LOCK"]) as held:
        held.lock("LOCK").release()
        held.lock("LOCK").release()
        with pytest.raises(LockedError):
            below.lock("d/LOCK")
        other = held.lock("OTHER")
        with pytest.raises(LockedError):
            below.lock("OTHER")
        other.release()
    below.lock("LOCK").release()


def test_held_locks_are_given_up_the_last_one_first(tmp_path: Path) -> None:
    disk = LocalDisk(tmp_path)
    freed = []

    class Noted:
        def __init__(self, path: str) -> None:
            self._path = path

        def release(self) -> None:
            freed.append(self._path)

    class Disks(OverlayDisk):
        def lock(self, path: str, *, wait: bool = False) -> Noted:
            return Noted(path)

    below = Disks(disk)
    HeldDisk(below, ["VISIT", "LOCK"]).release()
    assert freed == ["LOCK", "VISIT"]
    below.close()
    disk.close()


def test_one_lock_that_is_refused_leaves_none_held() -> None:
    below = base()
    busy = below.lock("d/LOCK")
    with pytest.raises(LockedError):
        HeldDisk(below, ["LOCK", "d/LOCK"])
    below.lock("LOCK").release()
    busy.release()


def test_keeping_writers_out_leaves_no_trace(tmp_path: Path) -> None:
    disk = LocalDisk(tmp_path)
    assert disk.keep_out("LOCK") is None
    disk.lock("LOCK").release()
    path = tmp_path / "LOCK"
    before = path.read_bytes(), path.stat().st_mtime_ns
    lock = disk.keep_out("LOCK")
    assert lock is not None
    with pytest.raises(LockedError):
        disk.lock("LOCK")
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    lock.release()
    disk.lock("LOCK").release()
    disk.close()
