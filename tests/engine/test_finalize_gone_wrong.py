"""What goes wrong while a segment is written apart: nobody has less than they were told."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

import quiver
from quiver.disk import LocalDisk
from quiver.engine import core as core_module
from quiver.engine import sealed
from quiver.engine.store import Store
from quiver.errors import CapacityError, PoisonedError

SMALL = {"segment": {"target_size": "1KiB"}}


def bundle(number: int) -> dict[str, pa.Table]:
    return {"e": pa.table({"id": [number], "x": ["y" * 2000]})}


@pytest.mark.parametrize("durability", ["segment", "interval"])
def test_a_close_tells_that_bundles_were_lost_with_the_thread_that_wrote_them(
    tmp_path, monkeypatch, durability
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError("no room for a segment")

    monkeypatch.setattr(sealed, "write_segment", fail)
    config = {**SMALL, "wal": {"durability": durability}}
    store = quiver.open(tmp_path / "s", slots=["e"], config=config)
    store.append(bundle(0))
    # The thread may not have begun yet: then closing itself meets it.
    with pytest.raises((PoisonedError, MemoryError)):
        store.close()
    assert store.closed


def test_a_close_of_a_store_that_syncs_each_append_has_lost_nothing(tmp_path, monkeypatch) -> None:
    began = threading.Event()

    def fail(*_: object, **__: object) -> None:
        began.set()
        raise MemoryError("no room for a segment")

    with monkeypatch.context() as patch:
        patch.setattr(sealed, "write_segment", fail)
        store = quiver.open(tmp_path / "s", slots=["e"], config=SMALL)
        store.append(bundle(0))
        assert began.wait(60)  # Else the close would try it, and tell of it.
        store.close()
    with quiver.open(tmp_path / "s") as again:
        assert again.recovery.replayed_bundles == 1


def test_nothing_is_written_after_the_folder_went_to_another_writer(tmp_path, monkeypatch) -> None:
    path = tmp_path / "s"
    late, sealing = threading.Event(), threading.Event()
    inner, write = Store._write_sealed, sealed.write_segment
    store = quiver.open(
        path, slots=["e"], config=SMALL, worker=False, disk=LocalDisk(path, create=True)
    )

    def slow(self: Store) -> None:
        if self is store:
            sealing.set()
            late.wait()
        inner(self)

    def full(*_: object, **__: object) -> None:
        raise CapacityError("the disk is full")

    monkeypatch.setattr(Store, "_write_sealed", slow)
    monkeypatch.setattr(sealed, "write_segment", full)
    appending = threading.Thread(target=store.append, args=(bundle(0),))
    appending.start()
    sealing.wait()
    with pytest.raises(CapacityError):
        store.close()
    monkeypatch.setattr(sealed, "write_segment", write)
    with quiver.open(path, worker=False, disk=LocalDisk(path)) as second:
        second.append(bundle(100))
        second.append(bundle(101))
        second.finalize()
        late.set()
        appending.join()
        assert quiver.scan(path, slot="e").to_table()["id"].to_pylist() == [0, 100, 101]


def test_a_signal_behind_the_taking_of_a_lock_does_not_take_it_twice() -> None:
    class Struck:
        """A lock whose taker is struck by a signal once it has it."""

        def __init__(self) -> None:
            self.inner = threading.RLock()
            self.taken = 0

        def acquire(self) -> None:
            self.inner.acquire()
            self.taken += 1
            if self.taken == 1:
                raise KeyboardInterrupt

        def _is_owned(self) -> bool:
            return self.inner._is_owned()

    lock = Struck()
    with pytest.raises(KeyboardInterrupt):
        core_module._acquire(lock)
    assert lock.taken == 1
