"""A writer that does one act after the other between the looks of a reader, at each of them.

Plain runs begin at every thirteenth look, each play and kind of log at another one of those;
``QUIVER_RACES=all`` at every second, and ``every`` at each.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from open_kit import SteppedDisk, WatchedDisk, check, snapshot
from store_kit import bundle, on_memory

import quiver
from quiver.disk import Disk
from quiver.scan import OpenBundle, SegmentRef

STEP = {"every": 1, "all": 2}.get(os.environ.get("QUIVER_RACES", ""), 13)
KEEP = {"segment": {"target_size": "1GiB", "max_open_duration": "1h"}}
CONFIGS: dict[str, dict[str, Any]] = {
    "punched": {"wal": {"reclaim_size": 1}},
    "copied": {"wal": {"reclaim_size": 1, "reclaim": "copy"}},
    "reused": {"wal": {"reclaim_size": 1, "reclaim": "recycle"}},
    "rotated": {"wal": {"rotate_size": 1200, "reclaim_size": 1}},
    "kept": {"wal": {"rotate_size": 2400, "reclaim_size": "1MiB"}},
}


class Writer:
    """A store, and which bundles it has appended, made a segment, and deleted."""

    def __init__(self, disk: SteppedDisk, config: dict[str, Any]) -> None:
        self.store = on_memory(disk, **KEEP, **config)
        self.subscription = self.store.subscribe("reader")
        self.begun = 0
        self.appended = 0
        self.in_segments: dict[int, range] = {}
        self.finalized = 0
        self.given_up: set[int] = set()
        self.deleted: set[int] = set()

    def append(self, count: int = 1) -> None:
        for _ in range(count):
            self.begun += 1
            self.store.append(bundle(self.begun - 1))
            self.appended = self.begun

    def finalize(self) -> None:
        self.in_segments[len(self.in_segments)] = range(self.finalized, self.appended)
        self.finalized = self.appended
        self.store.finalize()

    def delete(self) -> None:
        while (handle := self.subscription.poll()) is not None:
            handle.ack()
        self.given_up = set(range(self.finalized))
        self.store.maintain()
        self.deleted = set(range(self.finalized))


def little_of_each(writer: Writer) -> None:
    writer.append(2)
    writer.finalize()
    writer.append()
    writer.delete()
    writer.append(2)
    writer.finalize()
    writer.append()


def empty_it(writer: Writer) -> None:
    writer.finalize()
    writer.delete()


def finalize_again_and_again(writer: Writer) -> None:
    for _ in range(4):
        writer.append()
        writer.finalize()
    writer.delete()
    writer.append()


PLAYS: list[Callable[[Writer], None]] = [little_of_each, empty_it, finalize_again_and_again]


def prepared(config: dict[str, Any]) -> tuple[SteppedDisk, Writer]:
    """Give a store with a segment that was deleted, one that was not, and three open bundles."""
    disk = SteppedDisk()
    writer = Writer(disk, config)
    writer.append(2)
    writer.finalize()
    writer.delete()
    writer.append(2)
    writer.finalize()
    writer.append(3)
    return disk, writer


def judge(
    writer: Writer, before: tuple[int, set[int]], found: tuple[tuple[SegmentRef, ...], Any]
) -> None:
    appended, deleted = before
    segments, bundles = found
    held = [seq for ref in segments for seq in writer.in_segments[ref.segment_seq]]
    opened = [one.wal_seq for one in bundles]
    seen = held + opened
    assert len(set(seen)) == len(seen), "a bundle is seen twice"
    assert set(range(appended)) - writer.given_up <= set(seen), "a bundle is not seen"
    assert set(seen) <= set(range(writer.begun)), "a bundle is seen that nobody appended"
    assert set(range(max(seen, default=-1) + 1)) - set(seen) <= writer.given_up, "there is a hole"
    assert not set(opened) & deleted, "a bundle is back that was deleted before"


def race(
    play: Callable[[Writer], None], config: dict[str, Any], *, first: int, pace: int
) -> tuple[int, Disk, tuple[OpenBundle, ...]]:
    """Let the writer go on from the reader's look ``first`` on, ``pace`` acts before each look."""
    disk, writer = prepared(config)
    looks = 0

    def on_look(_: str) -> None:
        nonlocal looks
        if looks >= first:
            disk.steps.do(pace)
        looks += 1

    before = writer.appended, set(writer.deleted)
    disk.steps.start(lambda: play(writer))
    try:
        found = snapshot(WatchedDisk(disk, on_look))
        judge(writer, before, found)
    finally:
        disk.steps.finish()
    for one in found[1]:
        check(disk, one)  # Kept in memory: whatever has become of the log.
    abandoned = writer.store
    judge(writer, (writer.appended, set(writer.deleted)), snapshot(disk))
    abandoned.close()
    return looks, disk, found[1]


@pytest.mark.parametrize("pace", [1, 3, 1000])
@pytest.mark.parametrize("play", PLAYS, ids=lambda play: play.__name__)
@pytest.mark.parametrize("kind", CONFIGS)
def test_whatever_a_writer_does_between_two_looks_each_bundle_is_seen_once(
    kind: str, play: Callable[[Writer], None], pace: int
) -> None:
    looks, _, _ = race(play, CONFIGS[kind], first=1 << 30, pace=0)
    assert looks > 20
    begin = (list(CONFIGS).index(kind) + PLAYS.index(play)) % STEP
    for first in range(begin, looks, STEP * (3 if pace == 3 else 1)):
        race(play, CONFIGS[kind], first=first, pace=pace)


@pytest.mark.parametrize("play", PLAYS, ids=lambda play: play.__name__)
@pytest.mark.parametrize("kind", CONFIGS)
def test_each_state_that_a_writer_passes_through_is_seen_as_a_whole(
    kind: str, play: Callable[[Writer], None]
) -> None:
    disk, writer = prepared(CONFIGS[kind])
    disk.steps.start(lambda: play(writer))
    acts = 0
    try:
        while not disk.steps.is_over:
            before = writer.appended, set(writer.deleted)
            judge(writer, before, snapshot(disk))
            disk.steps.do(1)
            acts += 1
    finally:
        disk.steps.finish()
    assert acts > 10
    writer.store.close()


def test_a_writer_that_finalizes_at_each_look_keeps_no_reader_from_its_snapshot() -> None:
    disk, writer = prepared({})

    def on_look(_: str) -> None:
        writer.append()
        writer.finalize()

    before = writer.appended, set(writer.deleted)
    judge(writer, before, snapshot(WatchedDisk(disk, on_look)))
    writer.store.close()


def test_a_log_that_is_rotated_at_each_look_is_given_up_with_a_hint() -> None:
    disk, writer = prepared(CONFIGS["rotated"])

    def on_look(name: str) -> None:
        if name == "list_dir":
            writer.append(5)
            writer.finalize()

    with pytest.raises(quiver.StorageError, match="change faster than they can") as caught:
        snapshot(WatchedDisk(disk, on_look))
    assert caught.value.hint
    assert "core_0/wal" in caught.value.path
    writer.store.close()
