"""Cut the power after each act of a store's life, and inside each recovery, and look for losses."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from crash_kit import TINY, WORKLOADS

from quiver.engine import recovery
from quiver.testing import History, MemoryDisk, Model, crash_images
from quiver.testing.memory_file import MemoryFile
from quiver.testing.oracle import Loss, Rehearsal, judge
from quiver.wal import Replay

BUDGET = int(os.environ.get("QUIVER_CRASH_IMAGES", "250"))
"""Images for each workload and model."""

NESTED_EVERY = 5
NESTED_BUDGET = 8
"""Of each fifth image, the recovery is cut as well, at this many places."""


def live(name: str) -> Rehearsal:
    workload, subscribers = WORKLOADS[name]
    life = Rehearsal(config=TINY, subscribers=subscribers)
    workload(life)
    return life


def find_loss(history: History, model: Model, budget: int) -> str | None:
    """Judge images until one breaks a promise; say which and how."""
    for number, image in enumerate(crash_images(history, model=model, budget=budget)):
        try:
            recovered = judge(image, TINY)
        except Loss as loss:
            return f"{loss}\n{image.describe()}"
        if number % NESTED_EVERY:
            continue
        inner_images = crash_images(
            recovered.history, model=model, budget=NESTED_BUDGET, seed=number
        )
        for inner in inner_images:
            try:
                judge(inner, TINY, marks=image.marks)
            except Loss as loss:
                return f"{loss}\n{image.describe()}\nthen, in the recovery:\n{inner.describe()}"
    return None


@pytest.mark.parametrize("model", ["posix", "journaled"])
@pytest.mark.parametrize("name", WORKLOADS)
def test_nothing_acknowledged_is_lost_at_any_cut(name: str, model: Model) -> None:
    loss = find_loss(live(name).disk.history, model, BUDGET)
    assert loss is None, loss


def without_sync_of(part: str) -> Callable[[MemoryFile], None]:
    """A disk that skips the sync of some files."""
    honest = MemoryFile.sync

    def sync(file: MemoryFile) -> None:
        if part not in file.path:
            honest(file)

    return sync


def without_sync_dir_of(part: str) -> Callable[[MemoryDisk, str], None]:
    """A disk that skips the sync of some folders."""
    honest = MemoryDisk.sync_dir

    def sync_dir(disk: MemoryDisk, path: str) -> None:
        if not path.endswith(part):
            honest(disk, path)

    return sync_dir


def replay_without_memory(*args: Any, **options: Any) -> Replay:
    """A replay that does not know what segments hold."""
    return Replay(*args, **{**options, "covered_seq": None, "hint": None})


DEFECTS: dict[str, tuple[object, str, object]] = {
    "the log is not synced": (MemoryFile, "sync", without_sync_of("wal/quiver.wal")),
    "segments are not synced": (MemoryFile, "sync", without_sync_of(".qseg")),
    "the sidecar is not synced": (MemoryFile, "sync", without_sync_of("truncate.offset")),
    "the manifest is not synced": (MemoryFile, "sync", without_sync_of("quiver.json")),
    "acks are not synced": (MemoryFile, "sync", without_sync_of("ack.log")),
    "the segment folder is not synced": (MemoryDisk, "sync_dir", without_sync_dir_of("segments")),
    "the log folder is not synced": (MemoryDisk, "sync_dir", without_sync_dir_of("wal")),
    "the acks folder is not synced": (MemoryDisk, "sync_dir", without_sync_dir_of("acks")),
    "the replay doubles what segments hold": (recovery, "Replay", replay_without_memory),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_the_judge_finds_planted_defects(defect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A harness that cannot find what was planted proves nothing."""
    owner, name, planted = DEFECTS[defect]
    monkeypatch.setattr(owner, name, planted)
    found = (find_loss(live(work).disk.history, "posix", 250) for work in WORKLOADS)
    assert any(found), f"nobody noticed that {defect}"
