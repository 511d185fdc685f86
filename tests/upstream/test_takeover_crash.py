"""A takeover that is broken off leaves nothing, or the whole store; the next one works."""

from __future__ import annotations

import pytest
import upstream_kit as kit
from takeover_kit import BUNDLES, TABLE, findings, opened, stocks_of, take, taken

from quiver.config import Config
from quiver.disk import FolderDisk
from quiver.engine import takeover
from quiver.engine.takeover import take_over
from quiver.errors import InputError, LockedError, MissingError, QuiverError
from quiver.testing import Killed, ManualClock, MemoryDisk, Model, crash_images
from quiver.testing.acts import Rename


def test_a_name_that_is_taken_is_refused(source) -> None:
    parent = MemoryDisk()
    take(source, parent)
    before = parent.tree.digest()
    with pytest.raises(InputError, match="is a Quiver store already"):
        take(source, parent)
    assert parent.tree.digest() == before
    for path, what in (("store/file", "is not empty"), ("store", "is a file")):
        parent = MemoryDisk()
        kit.save(parent, path, b"")
        with pytest.raises(InputError, match=what):
            take(source, parent)


def test_a_source_that_was_written_since_it_was_read_is_refused(source, folder) -> None:
    parent = MemoryDisk()
    stocks = stocks_of(source)
    folder.add_segment(9, {30: kit.logs("late")})
    with pytest.raises(LockedError, match="was written while it was read"):
        take_over(stocks, parent, "store", slots=TABLE, config=Config(), clock=ManualClock())
    assert parent.stat("store") is None


def test_two_imports_under_one_name_are_refused(source) -> None:
    parent = MemoryDisk()
    parent.make_dir("store.importing")
    lock = FolderDisk(parent, "store.importing").lock("quiver.json.lock")
    with pytest.raises(LockedError):
        take(source, parent)
    lock.release()
    take(source, parent)


def test_what_an_import_of_something_else_left_is_not_mixed_in(source) -> None:
    for path in ("core_3/wal/quiver.wal", "file", "core_0/other/file"):
        parent = MemoryDisk()
        kit.save(parent, f"store.importing/{path}", b"")
        with pytest.raises(InputError, match=r"which this import would not make|is not ours"):
            take(source, parent)
        assert parent.stat("store") is None


def check_left(parent: MemoryDisk) -> bool:
    """Whether there is a store; it is whole then, and else nothing opens."""
    if parent.stat("store") is None:
        with pytest.raises((MissingError, InputError)):
            opened(parent)
        return False
    assert findings(parent) == []
    store = opened(parent)
    assert not store.recovery.damage
    assert taken(store, "spark") == [BUNDLES[i] for i in (1, 2, 4, 5)]
    assert taken(store, "new") == BUNDLES
    return True


def test_killed_at_any_act_there_is_nothing_and_the_next_import_works(source) -> None:
    parent = MemoryDisk()
    take(source, parent)
    acts = parent.act_count
    assert acts > 40
    before = source.tree.digest()
    whole = 0
    for act in range(acts):
        parent = MemoryDisk()
        parent.fail(act, error="kill")
        with pytest.raises(Killed):
            take(source, parent)
        parent.heal()
        parent.forget_locks()
        left = MemoryDisk(parent.tree)
        if not check_left(left):
            take(source, parent)
            assert check_left(parent)
        else:
            whole += 1
    assert whole == 1  # Between the rename and the last sync.
    assert source.tree.digest() == before


def test_a_disk_that_refuses_an_act_leaves_nothing_and_the_next_import_works(source) -> None:
    parent = MemoryDisk()
    take(source, parent)
    for act in range(0, parent.act_count, 3):
        parent = MemoryDisk()
        parent.fail(act, error="ENOSPC")
        with pytest.raises(QuiverError):
            take(source, parent)
        parent.heal()
        if not check_left(MemoryDisk(parent.tree)):
            take(source, parent)


@pytest.mark.parametrize("model", ["posix", "journaled"])
def test_a_power_cut_leaves_the_whole_store_or_none(source, model: Model) -> None:
    left = MemoryDisk()
    for station, name in (
        ("segments", "0000000000000099.qseg"),
        ("acks", "checkpoint"),
        ("wal", "quiver.wal.7"),
        ("quarantine", "something"),
    ):
        kit.save(left, f"store.importing/core_0/{station}/{name}", b"of an import before")
    kit.save(left, "store.importing/quiver.json", b"{}")
    parent = MemoryDisk(left.tree)
    take(source, parent)
    seen = [check_left(MemoryDisk(i.tree)) for i in _images(parent, model)]
    assert set(seen) == {False, True}


def _images(parent: MemoryDisk, model: Model):
    return crash_images(parent.history, model=model, budget=400)


@pytest.mark.parametrize("act", ["no quiver.json", "no sync of folders"])
def test_a_planted_defect_is_found(source, act, monkeypatch) -> None:
    parent = MemoryDisk()
    if act == "no quiver.json":
        monkeypatch.setattr(takeover.StoreManifest, "write", lambda *_: None)
    else:
        monkeypatch.setattr(FolderDisk, "sync_dir", lambda *_: None)
    take(source, parent)
    with pytest.raises((AssertionError, QuiverError)):
        for image in _images(parent, "posix"):
            check_left(MemoryDisk(image.tree))


def test_the_rename_is_the_last_but_one_act(source) -> None:
    parent = MemoryDisk()
    take(source, parent)
    last = [op for op in parent.history.ops if isinstance(op, Rename)][-1]
    assert (last.source, last.path) == ("store.importing", "store")
    assert parent.history.ops.index(last) == len(parent.history.ops) - 2
