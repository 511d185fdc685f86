"""``check`` and ``repair`` over every kind of damage: one finds what the other mends, and no more.

What a rehearsal says is lost is what the repair then loses, and what no subscriber gets any more.
Plain runs try edges of regions and some places between; ``QUIVER_DAMAGE=all`` about every
thirtieth byte as well, and ``every`` each of them, for half an hour.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from quiver.cli.audit import Finding, audit
from quiver.cli.losses import Loss, count_lost_bundles
from quiver.cli.remedy import Remedy, treat
from quiver.disk import Disk, OverlayDisk
from quiver.engine import salvage
from quiver.errors import VersionError
from quiver.testing import MemoryDisk, Model, crash_images
from quiver.testing.file_tree import Tree
from quiver.testing.manual_clock import ManualClock

from .sound_store import CONFIG, FILES, sound_store
from .test_damage_sweep import cuts, flips
from .wreck import Damage, _abandon, _deliver, _open

STEP = {"every": 1, "all": 31}.get(os.environ.get("QUIVER_DAMAGE", ""), 61)


def damaged(damage: Damage) -> Tree:
    sound = sound_store()
    tree = sound.tree.copy()
    blob = tree.blob(sound.inodes[FILES[damage.kind]])
    blob.truncate(len(damage.data))
    blob.write(0, damage.data)
    return tree


def findings(disk: Disk) -> tuple[list[Finding], bool]:
    """Give what ``check`` calls damage, and whether it finds a file of another version."""
    try:
        found = list(audit(disk, lambda _: None))
    except VersionError:
        return [], True
    return [f for f in found if f.kind == "damage"], any(f.kind == "version" for f in found)


def treated(disk: Disk, damage: list[Finding]) -> Remedy:
    return treat(disk, damage, dict, watch=lambda _: None)


def delivered(tree: Tree) -> set[int]:
    """Give the bundles that a new subscriber gets."""
    store = _open(MemoryDisk(tree))
    found = set(_deliver(store, "new"))
    _abandon(store)
    return found


def numbers(losses: list[Loss]) -> set[int]:
    return {seq for loss in losses for a, b in loss.ranges for seq in range(a, b + 1)}


@dataclass(frozen=True)
class Case:
    kind: str
    flipped: bool

    def __str__(self) -> str:
        return f"{self.kind} {'flipped' if self.flipped else 'cut'}"

    def damages(self) -> Iterator[Damage]:
        every = list(flips(self.kind) if self.flipped else cuts(self.kind))
        yield from every[::STEP]
        edges = {r.start for r in sound_store().regions[self.kind]}
        if STEP > 1 and not self.kind.endswith("segment"):
            yield from (d for d in every if d.start in edges)


CASES = [Case(kind, flipped) for kind in FILES for flipped in (True, False)]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_check_finds_is_mended_and_costs_what_the_rehearsal_said(case: Case) -> None:
    mended = 0
    for damage in case.damages():
        tree = damaged(damage)
        disk = MemoryDisk(tree)
        found, is_newer = findings(disk)
        if is_newer:
            continue
        if not found:
            assert not salvage.salvage(disk, config=CONFIG, clock=ManualClock()), damage
            continue
        overlay = OverlayDisk(disk)
        said = treated(overlay, found)
        assert not said.remains, damage
        overlay.close()
        assert disk.tree.digest() == tree.digest(), damage
        done = treated(disk, found)
        assert (done.losses, done.remains) == (said.losses, []), damage
        assert findings(disk) == ([], False), damage
        check_losses(damage, done.losses, sound_store().there - delivered(disk.tree))
        mended += 1
    assert mended


def check_losses(damage: Damage, losses: list[Loss], missing: frozenset[int]) -> None:
    """Hold what was said to be lost against the bundles that nobody gets any more."""
    if any(loss.what == "bundles" and not loss.ranges for loss in losses):
        return  # A whole log is gone: nobody can know what was in it.
    assert numbers(losses) >= missing, damage
    if all(loss.is_exact for loss in losses):
        assert numbers(losses) == missing, damage
        assert count_lost_bundles(losses) == len(missing), damage


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_is_gone_is_damage_for_both_or_for_none(kind: str) -> None:
    disk = MemoryDisk(sound_store().tree)
    disk.unlink(FILES[kind])
    found, _ = findings(disk)
    twin = MemoryDisk(disk.tree)
    met = salvage.salvage(twin, config=CONFIG, clock=ManualClock())
    assert bool(found) == bool(met), (found, met)
    if found:
        assert not treated(disk, found).remains
    assert findings(disk) == findings(twin) == ([], False)


def spoilt(*places: tuple[str, int]) -> Tree:
    """Give the sound store with one wrong byte at each place."""
    sound = sound_store()
    tree = sound.tree.copy()
    for kind, place in places:
        byte = sound.data(kind)[place] ^ 0x10
        tree.blob(sound.inodes[FILES[kind]]).write(place, bytes([byte]))
    return tree


def test_all_files_damaged_at_once_are_mended_at_once() -> None:
    sound = sound_store()
    disk = MemoryDisk(
        spoilt(*((kind, 100 if len(sound.data(kind)) > 100 else 9) for kind in FILES))
    )
    found, _ = findings(disk)
    assert {finding.path for finding in found} == {disk.locate(path) for path in FILES.values()}
    done = treated(disk, found)
    assert done.remains == []
    assert findings(disk) == ([], False)
    assert numbers(done.losses) >= sound.there - delivered(disk.tree)


def test_where_nothing_tells_the_slot_table_nothing_is_changed() -> None:
    sound = sound_store()
    directories = [
        (kind, next(r.start for r in sound.regions[kind] if r.name == "directory"))
        for kind in ("segment", "newest segment")
    ]
    tree = spoilt(("manifest", 0), *directories)
    disk = MemoryDisk(tree)
    found, _ = findings(disk)
    done = treated(disk, found)
    assert [finding.path for finding in done.remains] == [disk.locate(FILES["manifest"])]
    assert not done.fates
    assert disk.tree.digest() == tree.digest()


@pytest.mark.parametrize("model", ["posix", "journaled"])
@pytest.mark.parametrize("kind", FILES)
def test_a_repair_cut_short_is_finished_by_the_next_one(kind: str, model: Model) -> None:
    size = len(sound_store().data(kind))
    tree = spoilt((kind, min(100, size - 9)))
    whole = MemoryDisk(tree)
    salvage.salvage(whole, config=CONFIG, clock=ManualClock())
    kept = delivered(whole.tree)
    for image in crash_images(whole.history, model=model, budget=40):
        disk = MemoryDisk(image.tree)
        salvage.salvage(disk, config=CONFIG, clock=ManualClock())
        assert findings(disk) == ([], False), image.describe()
        assert delivered(disk.tree) == kept, image.describe()
