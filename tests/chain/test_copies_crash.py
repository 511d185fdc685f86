"""A power cut at any act of a copy's life: promises hold, and what was synced is there."""

from __future__ import annotations

import pytest
from copies_kit import BLOCK, LAYOUT, ROUTE, append, copies, entry, read

from quiver.chain.copies import CopyRules
from quiver.chain.peers import BlockName
from quiver.chain.sealing import Sealed
from quiver.errors import FencedError, MissingError
from quiver.testing import MemoryDisk, crash_images

REBOOTED = CopyRules("b", boot=b"2" * 16)
WHOLE = b"".join(entry(seq) for seq in range(1, 7))
ENDS = Sealed(len(WHOLE) // 6 * 4, 4, 10, 40, ())


def life(disk: MemoryDisk) -> None:
    """All that may become of a copy, with what was answered marked behind each act."""
    shelf = copies(disk)
    shelf.prepare(ROUTE, LAYOUT)
    disk.mark("prepared")
    for seqs in ((1, 2), (3,), (4, 5, 6)):
        append(shelf, *seqs)
        disk.mark("synced", length=shelf[BLOCK].holding.length)
    shelf[BLOCK].fence(7)
    disk.mark("promised", epoch=7)
    shelf[BLOCK].fence(9)
    disk.mark("promised", epoch=9)
    shelf[BLOCK].cut(ENDS)
    disk.mark("cut")
    finished = shelf[BLOCK].finish()
    disk.mark("finished", digest=finished.digest)
    shelf[BLOCK].settle(finished)
    disk.mark("settled")
    shelf.drop(BLOCK)
    disk.mark("dropped")


def facts(image) -> dict[str, object]:
    known: dict[str, object] = {}
    for mark in image.marks:
        known |= {mark.label: True} | dict(mark.facts)
    return known


def check(image) -> None:
    known = facts(image)
    disk = MemoryDisk(image.tree)
    shelf = copies(disk, REBOOTED)
    assert not shelf.damaged
    assert not shelf.faults
    if "dropped" in known:
        assert BLOCK not in shelf
    if "dropped" in known or ("prepared" in known and BLOCK not in shelf):
        assert "settled" in known
        with pytest.raises(MissingError):
            shelf.prepare(ROUTE._replace(epoch=99), LAYOUT)
        return
    if "prepared" not in known:
        shelf.prepare(ROUTE, LAYOUT)
        append(shelf, *(range(1, 7) if not shelf[BLOCK].holding.length else ()))
        return
    copy = shelf[BLOCK]
    with pytest.raises(FencedError):
        copy.fence(known.get("epoch", 5) - 1)
    answer = copy.fence(99)
    is_cut = "cut" in known or (known.get("epoch") == 9 and answer.length == ENDS.length)
    least = ENDS.length if is_cut else known.get("length", 0)
    assert least <= answer.length <= len(WHOLE)
    if is_cut:
        assert answer.length == ENDS.length
    if "settled" not in known and copy.holding.finished is None:
        log = read(shelf)
        assert log == WHOLE[: answer.length]
    if "finished" in known:
        assert copy.holding.finished.digest == known["digest"]
    shelf.close()


@pytest.mark.parametrize("model", ["posix", "journaled"])
def test_a_power_cut_takes_nothing_that_was_answered(model):
    disk = MemoryDisk()
    life(disk)
    count = 0
    for image in crash_images(disk.history, model=model, budget=700, seed=3):
        check(image)
        count += 1
    assert count > 100


@pytest.mark.parametrize(
    ("name", "planted"),
    [("a promise that is not synced", "promise"), ("a log that is not synced", "log")],
    ids=["promise", "log"],
)
def test_the_check_finds_what_is_planted(monkeypatch, name, planted):
    del name
    if planted == "promise":

        def hasty(disk, path, data):
            temporary = path + ".tmp"
            file = disk.create(temporary)
            file.write(0, data)
            file.close()
            disk.rename(temporary, path)

        monkeypatch.setattr("quiver.chain.copies.copy.put", hasty)
    else:
        monkeypatch.setattr("quiver.wal.writer.Writer.sync", lambda self, offset=None: None)
    disk = MemoryDisk()
    life(disk)
    monkeypatch.undo()
    with pytest.raises((AssertionError, MissingError)):
        for image in crash_images(disk.history, model="posix", budget=700, seed=3):
            check(image)


def test_a_kill_at_each_act_leaves_what_was_written():
    whole = MemoryDisk()
    life(whole)
    for act in range(whole.act_count):
        disk = MemoryDisk()
        disk.fail(act, error="kill")
        with pytest.raises(BaseException, match=r"^$"):
            life(disk)
        disk.heal()
        disk.forget_locks()
        shelf = copies(disk)
        assert not shelf.damaged
        if BLOCK in shelf and shelf[BLOCK].holding.finished is None:
            shelf[BLOCK].fence(99)
        shelf.prepare(ROUTE._replace(block=BlockName("core_0", 4)), LAYOUT)
