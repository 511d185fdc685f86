"""A folder for a store, a clock that stands still, and bundles that tell themselves apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
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
