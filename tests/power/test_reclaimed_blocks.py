"""What the log gives back is free on the disk: counted in blocks, on each file system there is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import quiver
from quiver.errors import StorageError
from quiver.testing.real import Volume
from quiver.testing.real.kernel import mount, unmount

CONFIG = {
    "wal": {"reclaim": "punch", "reclaim_size": "64KiB"},
    "segment": {"max_open_duration": "1h"},
}
BUNDLES = 24
BUNDLE_BYTES = 200_000
LOG = "core_0/wal/quiver.wal"


@pytest.fixture
def ramfs(tmp_path: Path) -> Iterator[Path]:
    """A file system that knows no holes."""
    if os.geteuid() != 0:
        pytest.skip("NO FILE SYSTEM WITHOUT HOLES: mounting ramfs needs root")
    place = tmp_path / "ramfs"
    place.mkdir()
    try:
        mount("ramfs", str(place), kind="ramfs")
    except StorageError as error:
        pytest.skip(f"NO FILE SYSTEM WITHOUT HOLES: {error}")
    try:
        yield place
    finally:
        unmount(str(place), detach=True)


def bundle(number: int) -> dict[str, pa.Table]:
    lot = np.random.default_rng(number)
    return {"s": pa.table({"b": np.frombuffer(lot.bytes(BUNDLE_BYTES), np.uint8)})}


def filled(path: str) -> quiver.Store:
    store = quiver.open(path, slots=["s"], config=CONFIG, worker=False)
    for number in range(BUNDLES):
        store.append(bundle(number), wait=False)
    store.flush()
    return store


def kill(store: quiver.Store) -> None:
    """Let go of all that a process holds, and do nothing more."""
    core = store._core
    core.held.release()
    core.acks.close()
    core.log.close()
    store._closed = True
    if store._let_go is not None:
        store._let_go()


def allocated(path: str) -> int:
    return os.stat(os.path.join(path, LOG)).st_blocks * 512


def check_hole(path: str) -> None:
    """Fill and finalize: the blocks are free, the places stay."""
    store = filled(path)
    size = os.path.getsize(os.path.join(path, LOG))
    before = allocated(path)  # XFS allocates more than was asked for, behind the end.
    assert before >= BUNDLES * BUNDLE_BYTES
    store.finalize()
    assert before - allocated(path) >= (BUNDLES - 1) * BUNDLE_BYTES
    assert os.path.getsize(os.path.join(path, LOG)) == size
    for number in range(3):
        store.append(bundle(number))
    kill(store)
    with quiver.open(path, config=CONFIG, worker=False) as again:
        assert again.recovery.replayed_bundles == 3
        assert not again.recovery.damage


@pytest.mark.root
def test_on_a_mounted_volume_blocks_are_given_back(volume: Volume) -> None:
    check_hole(volume.new_folder())


def test_in_memory_blocks_are_given_back() -> None:
    import tempfile

    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    kinds = [kind for _, place, kind, *_ in mounts if place == "/dev/shm"]
    if set(kinds) != {"tmpfs"}:
        pytest.skip(f"NO TMPFS: /dev/shm is {kinds or 'not there'}")
    with tempfile.TemporaryDirectory(prefix="quiver-test-", dir="/dev/shm") as folder:
        check_hole(f"{folder}/store")


@pytest.mark.root
def test_without_holes_the_file_itself_becomes_small(ramfs: Path) -> None:
    path = str(ramfs / "store")
    store = filled(path)
    store.finalize()
    assert os.path.getsize(f"{path}/{LOG}") < 200
    for number in range(9):
        store.append(bundle(number))
    # Six of nine are covered: the other three move to a file of their own.
    place = store._core.log.end
    sizes = os.path.getsize(f"{path}/{LOG}") // 9
    store._core.log.truncate(place._replace(offset=place.offset - 3 * sizes))
    kept = os.path.getsize(f"{path}/{LOG}")
    assert kept < 4 * BUNDLE_BYTES
    kill(store)
