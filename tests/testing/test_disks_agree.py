"""One list of acts gives the same files, answers and refusals on the real disk and in RAM."""

from __future__ import annotations

import tempfile
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from quiver.disk import Disk, LocalDisk
from quiver.errors import CapacityError, MissingError, QuiverError
from quiver.testing import MemoryDisk

PATHS = st.sampled_from(["a", "b", "d", "d/a", "d/b", "missing/a"])
OFFSETS = st.sampled_from([0, 1, 100, 4096, 5000, 9000])
STEPS = st.one_of(
    st.tuples(st.just("create"), PATHS, st.sampled_from([0o600, 0o440])),
    st.tuples(st.just("write"), PATHS, OFFSETS, st.binary(min_size=1, max_size=40)),
    st.tuples(st.just("truncate"), PATHS, OFFSETS),
    st.tuples(st.just("punch"), PATHS, OFFSETS, OFFSETS),
    st.tuples(st.just("sync"), PATHS),
    st.tuples(st.just("make_dir"), PATHS),
    st.tuples(st.just("rename"), PATHS, PATHS),
    st.tuples(st.just("unlink"), PATHS),
    st.tuples(st.just("sync_dir"), PATHS),
    st.tuples(st.just("read"), PATHS, OFFSETS, OFFSETS),
    st.tuples(st.just("map"), PATHS),
)


def act(disk: Disk, step: tuple[Any, ...]) -> object:
    name, path, *rest = step
    if name == "create":
        disk.create(path, mode=rest[0]).close()
        return None
    if name == "map":
        return bytes(disk.map(path))
    if name in ("rename", "unlink", "make_dir", "sync_dir"):
        return getattr(disk, name)(path, *rest)
    file = disk.open(path, writable=name != "read")
    try:
        return getattr(file, name)(*rest)
    finally:
        file.close()


def outcome(disk: Disk, step: tuple[Any, ...]) -> object:
    try:
        answer = act(disk, step)
    except QuiverError as error:
        return next(k for k in (MissingError, CapacityError, QuiverError) if isinstance(error, k))
    # Whether holes can be punched is the disk's own business; what is read afterwards is not.
    return None if step[0] == "punch" else answer


def listing(disk: Disk, folder: str = "") -> list[tuple[str, bytes | None]]:
    found: list[tuple[str, bytes | None]] = []
    for entry in disk.list_dir(folder):
        path = f"{folder}/{entry.name}" if folder else entry.name
        if entry.is_file:
            data = bytes(disk.map(path))
            assert entry.size == len(data)
            found.append((path, data))
        else:
            found += [(path, None), *listing(disk, path)]
    return found


@settings(max_examples=150, deadline=None)
@example(steps=[("create", "a", 0o600), ("write", "a", 9000, b"x"), ("punch", "a", 0, 9000)])
@example(steps=[("create", "a", 0o600), ("create", "b", 0o600), ("rename", "a", "b")])
@example(steps=[("make_dir", "d"), ("create", "d/a", 0o440), ("rename", "d/a", "a")])
@example(steps=[("create", "a", 0o600), ("rename", "a", "d")])
@given(steps=st.lists(STEPS, max_size=12))
def test_local_and_memory_disk_agree_on_any_list_of_acts(steps: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        local = LocalDisk(folder)
        memory = MemoryDisk()
        try:
            for step in [("make_dir", "d"), *steps]:
                found = memory.stat(step[1])
                if step[0] == "rename" and found is not None and not found.is_file:
                    continue  # The store renames files alone; folders have rules of their own.
                assert outcome(local, step) == outcome(memory, step), step
            assert listing(local) == listing(memory)
        finally:
            local.close()
