"""Who waits for a receipt, in another thread or without hastening anything."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from gated_disk import PATIENCE
from store_kit import numbers, on_memory

import quiver
from quiver.testing import MemoryDisk, crash_images

MODES = ["sync", "interval", "segment"]
FAR = 1 << 62
"""A moment that does not come."""


class Background:
    """A thread whose outcome is looked at later: what it gave, or what it raised."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act
        self._outcome: object = "nothing"
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._outcome = self._act()
        except Exception as error:  # noqa: BLE001 Whatever it is, the test looks at it.
            self._outcome = error

    def outcome(self) -> object:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        return self._outcome


class Told:
    """A waiter that hastens nothing."""

    def __init__(self, receipt: quiver.Receipt) -> None:
        self.ticket = receipt._ticket
        self._told = threading.Event()
        receipt._store._commit.add(self)

    calls_others = False

    def tell(self, error: Exception | None) -> None:
        assert error is None
        self._told.set()

    def wait(self) -> None:
        assert self._told.wait(PATIENCE)


def after_power_cuts(disk: MemoryDisk) -> Iterator[list[int]]:
    history = disk.history
    for image in crash_images(history, model="posix", budget=100, points=[len(history.ops)]):
        store = on_memory(image.disk())
        store.finalize()
        yield numbers(store)
