"""Whatever breaks a call off between an act and its bookkeeping, nothing acknowledged is lost."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest
from store_kit import bundle, numbers, on_memory

import quiver
from quiver.engine import sealed
from quiver.segment import Catalog, OpenSegment
from quiver.subscriber import Registry
from quiver.testing import MemoryDisk
from quiver.testing.memory_file import MemoryFile


class Interrupt(BaseException):
    """What a signal handler may raise anywhere."""


def break_off(monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> None:
    """Let a function do its work, once, and then be broken off."""
    honest = getattr(owner, name)

    def broken(*args, **named):
        honest(*args, **named)
        monkeypatch.setattr(owner, name, honest)
        raise Interrupt

    monkeypatch.setattr(owner, name, broken)


def test_a_number_that_may_be_in_the_log_is_never_given_to_another_bundle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = MemoryDisk()
    store = on_memory(disk)
    store.append(bundle(0))
    break_off(monkeypatch, MemoryFile, "write")
    with pytest.raises(Interrupt):
        store.append(bundle(1))
    with pytest.raises(quiver.PoisonedError, match="Interrupt"):
        store.append(bundle(2))
    store.close()
    again = on_memory(MemoryDisk(disk.tree))
    assert again.append(bundle(2)) == 2
    again.finalize()
    assert numbers(again) == [0, 1, 2]
    assert not again.recovery.damage


@pytest.mark.filterwarnings("ignore:.*lost without an outcome:ResourceWarning")
@pytest.mark.parametrize(
    ("owner", "name", "act"),
    [
        (OpenSegment, "add", lambda store, _: store.append(bundle(9))),
        (MemoryFile, "sync", lambda store, _: store.append(bundle(9))),
        (sealed, "write_segment", lambda store, _: store.finalize()),
        (Catalog, "add", lambda store, _: store.finalize()),
        (Registry, "add_segment", lambda store, _: store.finalize()),
        (MemoryDisk, "unlink", lambda store, _: store.maintain()),
        (Registry, "register", lambda store, _: store.subscribe("late")),
        (Registry, "settle_held", lambda _, handle: handle.ack()),
        (MemoryFile, "write", lambda _, handle: handle.ack()),
    ],
)
def test_a_store_that_was_broken_off_takes_no_more_and_recovers(
    owner: object,
    name: str,
    act: Callable[[quiver.Store, quiver.BundleHandle | None], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = MemoryDisk()
    store = on_memory(disk)
    store.subscribe("reader")
    store.append(bundle(0))
    store.finalize()
    assert numbers(store) == [0]
    handle = None
    if name != "unlink":  # Only what everybody has is deleted.
        handle = store.subscribe("other").poll()
        store.append(bundle(1))
    break_off(monkeypatch, owner, name)
    with pytest.raises(Interrupt):
        act(store, handle)
    with pytest.raises(quiver.PoisonedError):
        store.append(bundle(2))
    store.close()
    again = on_memory(MemoryDisk(disk.tree))
    again.finalize()
    found = numbers(again)
    assert found == sorted(set(found))
    if name != "unlink":
        assert 1 in found
    del handle, store
    gc.collect()  # Its warning belongs to this test.
