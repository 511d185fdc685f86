"""What a scan sees of segments and of the log, and disks that let a writer act meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import store_kit

from quiver.manifest import StoreManifest
from quiver.scan import OpenBundle, take_snapshot
from quiver.segment import SegmentReader
from quiver.testing import MemoryDisk
from quiver.testing.memory_file import MemoryFile

PATIENCE = 60


def snapshot(disk: Any, *, slot_id: int | None = None) -> tuple[Any, tuple[OpenBundle, ...]]:
    manifest = StoreManifest.read(disk)
    return take_snapshot(disk, manifest, include_open=True, slot_id=slot_id)


def view(disk: Any) -> tuple[list[int], list[int]]:
    """Give the numbers in segments and those that are open, after a look at what is in these."""
    segments, bundles = snapshot(disk)
    finalized = []
    for segment in segments:
        with SegmentReader.open(disk, segment.path) as reader:
            finalized += [
                reader.bundle_entry(index).wal_seq for index in range(reader.bundle_count)
            ]
    for bundle in bundles:
        check(disk, bundle)
    return finalized, [bundle.wal_seq for bundle in bundles]


def check(disk: Any, bundle: OpenBundle) -> None:
    """Compare an open bundle with what was appended, for stores where that follows its number."""
    expected = store_kit.bundle(bundle.wal_seq)
    found = {slot.slot_id: bundle.batch(disk, slot.slot_id) for slot in bundle.slots}
    named = {store_kit.SLOTS[slot_id]: batch for slot_id, batch in found.items()}
    assert {name: batch.to_pylist() for name, batch in named.items() if batch is not None} == {
        name: batch.to_pylist() for name, batch in expected.items()
    }


class Steps:
    """A writer in a thread of its own that does one act on its disk at a time, when it is let."""

    def __init__(self) -> None:
        self._go = threading.Semaphore(0)
        self._here = threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._is_free = True
        self.is_over = False
        self.error: BaseException | None = None

    def start(self, act: Callable[[], object]) -> None:
        """Let a writer go up to its first act."""

        def run() -> None:
            try:
                act()
            except BaseException as error:  # noqa: BLE001 Told by ``finish``.
                self.error = error
            self.is_over = True
            self._here.release()

        self._is_free = False
        self._thread = threading.Thread(target=run)
        self._thread.start()
        assert self._here.acquire(timeout=PATIENCE)

    def before_act(self) -> None:
        if not self._is_free and threading.current_thread() is self._thread:
            self._here.release()
            assert self._go.acquire(timeout=PATIENCE)

    def do(self, count: int) -> None:
        """Let it do so many acts, or all that are left, and wait for that."""
        for _ in range(count):
            if self.is_over:
                return
            self._go.release()
            assert self._here.acquire(timeout=PATIENCE)

    def finish(self) -> None:
        """Let it go to its end, and raise what went wrong in it."""
        while not self.is_over:
            self.do(1)
        if self._thread is not None:
            self._thread.join()
        if self.error is not None:
            raise self.error


class SteppedFile(MemoryFile):
    __slots__ = ()

    def write(self, offset: int, data: Any) -> None:
        self._disk.steps.before_act()
        super().write(offset, data)

    def truncate(self, size: int) -> None:
        self._disk.steps.before_act()
        super().truncate(size)

    def punch(self, offset: int, length: int) -> bool:
        self._disk.steps.before_act()
        return super().punch(offset, length)


class SteppedDisk(MemoryDisk):
    """A MemoryDisk on which a writer stops before each act that others can see."""

    def __init__(self, *, punch_supported: bool = True) -> None:
        super().__init__(punch_supported=punch_supported)
        self.steps = Steps()

    def create(self, path: str, **options: int) -> SteppedFile:
        self.steps.before_act()
        super().create(path, **options).close()
        return self.open(path, writable=True)

    def open(self, path: str, *, writable: bool = False) -> SteppedFile:
        with self.mutex:
            file = super().open(path, writable=writable)
            stepped = SteppedFile(self, file.inode, path, writable=writable)
            file.close()
            return stepped

    def rename(self, source: str, target: str) -> None:
        self.steps.before_act()
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        self.steps.before_act()
        super().unlink(path)


class WatchedDisk:
    """A disk that tells of each look at it, before it is done; for readers."""

    def __init__(self, disk: Any, on_look: Callable[[str], object]) -> None:
        self._disk, self._on_look = disk, on_look

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._disk, name)
        if name == "locate":
            return found

        def look(*args: Any, **named: Any) -> Any:
            self._on_look(name)
            result = found(*args, **named)
            return WatchedFile(result, self._on_look) if name == "open" else result

        return look


class WatchedFile:
    """An open file of such a disk."""

    def __init__(self, file: Any, on_look: Callable[[str], object]) -> None:
        self._file, self._on_look, self.path = file, on_look, file.path

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._file, name)

        def look(*args: Any) -> Any:
            if name != "close":
                self._on_look(name)
            return found(*args)

        return look
