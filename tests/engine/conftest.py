"""A folder for a store, a clock that stands still, and bundles that tell themselves apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from gated_disk import GatedDisk
from store_kit import SLOTS, abandon

import quiver
from quiver.testing import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


Opener = Callable[..., quiver.Store]


@pytest.fixture
def opener(path: Path, clock: ManualClock):
    """Open the store of this test, again and again; those still open are abandoned at the end."""
    opened: list[quiver.Store] = []

    def open_(config: Mapping[str, Any] | None = None, **options: Any) -> quiver.Store:
        settings: dict[str, Any] = {"slots": SLOTS, "clock": clock, "worker": False} | options
        store = quiver.open(path, config=config, **settings)
        opened.append(store)
        return store

    yield open_
    for store in opened:
        abandon(store)


@pytest.fixture
def disk() -> Iterator[GatedDisk]:
    """A disk whose syncs can be held up; they never are for longer than a test."""
    disk = GatedDisk()
    yield disk
    disk.gate.open()


@pytest.fixture
def open_gated(disk: GatedDisk) -> Iterator[Opener]:
    """Open a store on that disk; those still open are closed at the end."""
    opened: list[quiver.Store] = []

    def open_(*, worker: bool = True, clock: Any = None, **config: Any) -> quiver.Store:
        store = quiver.open(
            "memory", slots=SLOTS, disk=disk, worker=worker, clock=clock, config=config
        )
        opened.append(store)
        return store

    yield open_
    disk.gate.open()
    disk.heal()
    for store in opened:
        store.close()


@pytest.fixture
def no_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but what a test is about makes the worker sync."""
    monkeypatch.setattr("quiver.engine.worker._TICK_NS", 10**15)
