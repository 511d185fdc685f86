"""Several batches of a request go into a store, and the disk refuses one of them in between."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from gated_disk import PATIENCE, GatedDisk
from otlp_sinks import logs_batch
from outgoing_kit import QUIET, fill

import quiver.engine
from quiver.engine.outgoing import write_waiting
from quiver.errors import CapacityError
from quiver.otel.batch import Batch
from quiver.otel.pipeline.routes import StoreIntake
from quiver.otel.signals import TELEMETRY


class Refused(list[Batch]):
    """Batches of which the disk has no room for the first when that is written."""

    def __init__(self, disk: GatedDisk, store: quiver.engine.Store) -> None:
        super().__init__(map(logs_batch, "ab"))
        self.disk, self.store = disk, store

    def __iter__(self) -> Iterator[Batch]:
        yield self[0]
        if self.store._core.outgoing:
            fill(self.disk, self.store, 0)
            write_waiting(self.store._core)
            self.disk.heal()
        yield self[1]


def test_nothing_is_safe_if_the_disk_refused_one_and_had_room_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("quiver.engine.worker._TICK_NS", 10**15)
    disk, heard = GatedDisk(), threading.Event()
    told: list[Exception | None] = []

    def done(error: Exception | None) -> None:
        told.append(error)
        heard.set()

    with quiver.engine.open("m", slots=TELEMETRY, disk=disk, config={"wal": QUIET}) as store:
        intake = StoreIntake(store, wait_seconds=0)
        intake.begin(Refused(disk, store), done)
        intake.hasten()
        assert heard.wait(PATIENCE)
        assert store.metrics()["quiver.wal.refused_bundles", ""] == 1
        assert isinstance(told[0], CapacityError)
        assert len(told) == 1


def test_what_is_durable_is_said_to_be_though_a_follower_fails() -> None:
    class Follower:
        has_room, is_pressed = True, False

        def offer(self, wal_seq: int, batch: Batch) -> None:
            raise ZeroDivisionError

    heard, told = threading.Event(), []
    with quiver.engine.open("m", slots=TELEMETRY, disk=GatedDisk(), config={"wal": QUIET}) as store:
        intake = StoreIntake(store, wait_seconds=0)
        intake.followers = (Follower(),)
        intake.begin([logs_batch("a")], lambda error: (told.append(error), heard.set()))
        intake.hasten()
        assert heard.wait(PATIENCE)
    assert told == [None]
