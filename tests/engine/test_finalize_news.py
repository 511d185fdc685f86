"""Who asked for it hears of each finalized segment, in order, and outside the store's lock."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest
from store_kit import SLOTS, bundle

import quiver
from quiver.segment import SegmentInfo
from quiver.testing import ManualClock

PATIENCE = 30


def test_without_a_worker_who_finalizes_tells(path: Path) -> None:
    with quiver.open(path, slots=SLOTS, worker=False) as store:
        heard: list[int] = []
        stop = store.on_finalize(lambda info: heard.append(info.segment_seq))
        for number in range(3):
            store.append(bundle(number))
            if number == 2:
                stop()
            store.finalize()
        assert heard == [0, 1]


def test_the_worker_tells_of_each_segment_and_may_use_the_store(path: Path) -> None:
    heard: list[tuple[int, str]] = []
    done = threading.Event()
    with quiver.open(path, slots=SLOTS) as store:

        def hear(info: SegmentInfo) -> None:
            with store.subscribe("reader").next(PATIENCE) as handle:
                heard.append((info.segment_seq, handle.subscriber))
            if len(heard) == 2:
                done.set()

        store.on_finalize(hear)
        for number in range(2):
            store.append(bundle(number))
            store.finalize()
        assert done.wait(PATIENCE)
    assert heard == [(0, "reader"), (1, "reader")]


def test_what_the_worker_calls_may_wait_for_a_receipt_for_a_while(path: Path) -> None:
    waited: list[int | BaseException] = []
    done = threading.Event()
    with quiver.open(path, slots=SLOTS, config={"wal": {"flush_interval": "1h"}}) as store:

        def hear(_info: SegmentInfo) -> None:
            try:
                waited.append(store.append(bundle(1), wait=False).wait("2s"))
            except quiver.WaitTimeoutError as error:
                waited.append(error)
            done.set()

        store.on_finalize(hear)
        store.append(bundle(0))
        store.finalize()
        assert done.wait(PATIENCE)
    assert waited == [1]


def test_all_are_told_although_one_fails(path: Path) -> None:
    with quiver.open(path, slots=SLOTS, worker=False) as store:
        heard: list[int] = []

        def fail(info: object) -> None:
            raise ValueError(str(info))

        store.on_finalize(fail)
        store.on_finalize(lambda info: heard.append(info.segment_seq))
        store.append(bundle(0))
        with pytest.raises(ValueError, match="segment_seq=0"):
            store.finalize()
        assert heard == [0]
        assert store.info().segments == 1


def test_a_failure_in_the_worker_is_kept_and_harms_nothing(path: Path) -> None:
    told = threading.Event()
    with quiver.open(path, slots=SLOTS) as store:

        def fail(_info: object) -> None:
            told.set()
            raise ValueError("no")

        store.on_finalize(fail)
        store.append(bundle(0))
        store.finalize()
        assert told.wait(PATIENCE)
        store.append(bundle(1))


def test_a_callback_that_exits_ends_no_worker_and_keeps_nobody_from_being_told(path: Path) -> None:
    heard: list[int] = []
    told = threading.Event()
    clock = ManualClock()  # No tick comes, which would forget the failure.
    with quiver.open(path, slots=SLOTS, clock=clock) as store:

        def hear(info: SegmentInfo) -> None:
            heard.append(info.segment_seq)
            if len(heard) == 2:
                told.set()

        store.on_finalize(lambda _info: sys.exit(3))
        store.on_finalize(hear)
        for number in range(2):
            store.append(bundle(number))
            store.finalize()
        assert told.wait(PATIENCE)
        assert store.append(bundle(2), wait=False).wait("1h") == 2
        assert store.worker is not None
        assert not store.worker.ended
        assert isinstance(store.worker_failure, SystemExit)
    assert heard == [0, 1]
