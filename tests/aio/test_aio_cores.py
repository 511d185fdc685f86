"""Stores on an event loop get a core each, too."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from store_kit import SLOTS, bundle

import quiver


def test_each_gets_the_first_core_that_is_free(tmp_path: Path) -> None:
    async def main() -> list[int]:
        path = tmp_path / "store"
        async with quiver.aio.open(path, slots=SLOTS) as one, quiver.aio.open(path) as two:
            await asyncio.gather(one.append(bundle(0)), two.append(bundle(1)))
            with pytest.raises(quiver.LockedError):
                await quiver.aio.open(path, core=1)
            return [(await store.info()).core for store in (one, two)]

    assert asyncio.run(main()) == [0, 1]
    rows = quiver.scan(tmp_path / "store", slot="events").to_table()
    assert rows["n"].to_pylist() == [0, None, 1, None]
