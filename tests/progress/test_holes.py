"""What a power cut loses of unsynced entries is read from its source again, and nothing twice."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from follow_kit import damage, killed, opened
from store_kit import abandon

import quiver
from quiver.disk import Disk
from quiver.engine import holes, progress_beside
from quiver.manifest import StoreManifest
from quiver.progress import Note, decode_note
from quiver.testing import Campaign, Loss, MemoryDisk, Plan
from quiver.testing.acts import Mark
from quiver.testing.lives import TINY
from quiver.testing.recorder import FaultKind
from quiver.wal.replay import Replay

pytestmark = pytest.mark.filterwarnings("ignore:.*lost without an outcome")
COUNT = 12
IMAGES = 60
SOME = IMAGES if os.environ.get("QUIVER_CAMPAIGN") == "all" else 15
"""Of the life itself, where nothing is planted."""
WINDOW = 4
"""So many are on their way to the disk at a time."""


class Fed:
    """A source of twelve bundles, some of them with one of nobody's before it.

    It gives them again from any state, as often as it is asked.
    """

    lives = ("in one", "in segments", "copied", "recycled", "beside others")
    configs: ClassVar[dict[str, Any]] = {
        "in one": {"wal": {"rotate_size": "1MiB"}},
        "in segments": {},
        "copied": {"wal": {"reclaim": "copy", "reclaim_size": "300B"}},
        "recycled": {"wal": {"reclaim": "recycle", "reclaim_size": "300B"}},
        "beside others": {"wal": {"rotate_size": "1MiB"}},
    }

    def open(self, disk: Disk, life: str) -> quiver.Store:
        target = 100_000 if life == "in one" else 2_500
        config = {**TINY, "segment": {"target_size": target}, **self.configs[life]}
        return opened(disk, **config)

    def live(self, name: str, stage: Any) -> None:
        store = self.open(stage, name)
        self.feed(store, name)
        if name != "in one":
            store.finalize()
        abandon(store)

    def feed(self, store: quiver.Store, life: str) -> None:
        """Append what the source has behind the state."""
        with store.follow("in") as follower:
            receipts = []
            for number in range(int(follower.states.get("a", -1)) + 1, COUNT):
                if life == "beside others" and number % 3 == 0:
                    store.append({"s": rows(100 + number)}, wait=False)
                at = follower.at({"a": str(number)})
                receipts.append(store.append({"s": rows(number)}, wait=False, progress=at))
                if len(receipts) == WINDOW:
                    receipts[-1].wait()
                    receipts.clear()

    def facts(self, marks: Sequence[Mark]) -> int:
        return 0

    def recover(self, disk: Disk, life: str) -> str:
        """Read what is known from outside, then from inside: both must be the same."""
        store = self.open(disk, life)
        found = store.progress("in")
        abandon(store)
        outside = self.beside(disk)
        if outside != found:
            raise Loss(f"the state is {found}, and seen from outside {outside}")
        return str(found)

    def beside(self, disk: Disk) -> dict[str, str]:
        other = opened(disk, core=1)
        found = other.progress("in")
        abandon(other)
        return found

    def observe(self, disk: Disk, life: str, state: object) -> list[int]:
        store = self.open(disk, life)
        self.feed(store, life)
        abandon(store)
        store = self.open(disk, life)  # What was taken out does not come back.
        store.finalize()
        subscription = store.subscribe("judge")
        handles = list(iter(subscription.poll, None))
        found = [handle["s"]["n"][0].as_py() for handle in handles]
        abandon(store)
        return [number for number in found if number < 100]

    def judge(self, facts: int, state: Any, seen: list[int], *, torn: bool) -> None:
        if seen != list(range(COUNT)):
            raise Loss(f"the store has {seen} behind {state}")


def rows(number: int) -> pa.Table:
    return pa.table({"n": [number]})


def losses(life: str, images: int = IMAGES) -> list[str]:
    kinds: Sequence[FaultKind] = ("EIO", "short", "kill")
    plan = Plan(
        images_per_life=images, depth=2, nested_images=4, faults_per_life=3, fault_kinds=kinds
    )  # fmt: skip
    failure = Campaign(Fed(), plan).tell(life).failure
    return [] if failure is None else [str(failure)]


@pytest.mark.parametrize("life", Fed.lives)
def test_each_is_there_once_whatever_the_disk_kept_of_what_was_not_synced(life: str) -> None:
    assert losses(life, SOME) == []


def never(*_: object) -> bool:
    return False


def all_stand(entries: Iterable[holes.Logged], covered_seq: int) -> Iterator[tuple[int, Note]]:
    return ((e.first_seq, decode_note(e.note)) for e in entries if e.note is not None)


@pytest.mark.parametrize("outside", [False, True], ids=["inside", "everywhere"])
def test_the_harness_finds_states_that_stand_behind_a_hole(
    outside: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holes.Doubt, "loses", never)
    if outside:
        monkeypatch.setattr(progress_beside, "standing", all_stand)
    assert losses("in one")


def test_the_harness_finds_what_was_taken_out_and_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Replay, "strike", never)
    assert losses("in one")


def fed(disk: MemoryDisk, windows: Sequence[int]) -> list[int]:
    """Append so many bundles at a time before each sync, be killed, and say where each ends."""
    store = opened(disk)
    ends = [store._core.log.end.offset]
    follower = store.follow("in")
    for window in windows:
        for _ in range(window):
            at = follower.at({"a": str(len(ends) - 1)})
            store.append({"s": rows(len(ends) - 1)}, wait=False, progress=at)
            ends.append(store._core.log.end.offset)
        store.flush()
    killed(store)
    return ends


@pytest.mark.parametrize(
    ("windows", "rotten", "state", "left"),
    [
        ([1, 1, 1], 1, "2", [0, 2]),
        ([3, 1], 1, "3", [0, 2, 3]),
        ([1, 3], 0, "3", [1, 2, 3]),
        # Nothing behind it says that it was ever durable: its source gives it again, and these.
        ([1, 3], 1, "0", [0]),
        ([4], 0, None, []),
    ],
    ids=["each synced", "synced with others", "before", "in the last sync", "first of all"],
)
def test_rot_in_what_was_durable_costs_no_other_bundle(
    windows: list[int], rotten: int, state: str | None, left: list[int]
) -> None:
    disk = MemoryDisk()
    ends = fed(disk, windows)
    damage(disk, "core_0/wal/quiver.wal", ends[rotten + 1] - 10)
    beside = opened(disk, core=1)
    assert beside.progress("in").get("a") == state
    beside.close()
    for _ in range(2):
        store = opened(disk)
        assert store.progress("in").get("a") == state
        killed(store)
    store = opened(disk)
    store.finalize()
    subscription = store.subscribe("judge")
    handles = list(iter(subscription.poll, None))
    assert [handle["s"]["n"][0].as_py() for handle in handles] == left
    store.close()


def test_what_is_taken_out_is_set_aside_and_told() -> None:
    disk = MemoryDisk()
    ends = fed(disk, [1, 3])
    log = disk.open("core_0/wal/quiver.wal")
    behind = log.read(ends[2], ends[4] - ends[2])
    damage(disk, "core_0/wal/quiver.wal", ends[2] - 10)
    store = opened(disk)
    (told,) = [e for e in store.recovery.damage if "their source gives them again" in e.message]
    assert told.offset == ends[2]
    copy = disk.open(f"core_0/quarantine/wal-1-{ends[2]}.bin")
    assert copy.read(0, 1 << 20) == behind
    assert store.info().next_wal_seq == 4
    store.close()


def test_a_note_says_how_many_before_it_were_not_known_to_be_durable() -> None:
    disk = MemoryDisk()
    fed(disk, [2, 1, 300])
    logged = list(holes.read_logged(disk, "core_0/wal", StoreManifest.read(disk).layout_digest))
    lags = [decode_note(entry.note).lag for entry in logged if entry.note is not None]
    assert lags == [0, 1, 0, *range(255), *([255] * 45)]
