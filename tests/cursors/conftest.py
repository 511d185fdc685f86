"""Stores of several partitions with chosen times."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import quiver
from quiver.testing import ManualClock

Opener = Callable[..., quiver.Store]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(wall_ns=1000)


@pytest.fixture
def opener(path: Path, clock: ManualClock) -> Iterator[Opener]:
    """Open a core of the store of this test; those still open are closed at the end."""
    opened: list[quiver.Store] = []

    def open_(core: int = 0, rule: str = "caller", **sections: Any) -> quiver.Store:
        config = {"segment": {"time": rule}, **sections}
        slots = [quiver.Slot(0, "events", 0, "at"), quiver.Slot(1, "notes", 1)]
        store = quiver.open(
            path,
            slots=quiver.SlotTable(slots),
            clock=clock,
            core=core,
            worker=False,
            config=config,
        )
        opened.append(store)
        return store

    yield open_
    for store in opened:
        with contextlib.suppress(quiver.QuiverError):
            store.close()
