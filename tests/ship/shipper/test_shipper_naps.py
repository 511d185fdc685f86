"""A shipper sleeps for an hour at any act on the bucket, while a sweeper takes what nobody names.

Then it goes on, or is killed at that very act or a later one: in the end each bundle is there once.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress

import pytest
from beside_kit import peek
from shipper_kit import NAME, Rig, arrived

from quiver.errors import MissingError
from quiver.ship.queue import Queue, QueueOptions
from quiver.ship.sweeper import Sweeper
from quiver.testing import Killed
from quiver.units import parse_duration

STEP = 1 if os.environ.get("QUIVER_SHIP") == "all" else 29
"""``make crash`` asks for each act; otherwise a few."""
COUNT = 12


class Sleeper:
    """A bucket whose user sleeps before, or behind, one of its acts, and may be killed at one."""

    def __init__(self, rig: Rig, *, nap: int, die: int, behind: bool) -> None:
        self._rig, self._nap, self._die, self._behind = rig, nap, die, behind
        self._lock = threading.Lock()
        self.acts = 0

    place = property(lambda self: self._rig.bucket.place)
    base = property(lambda self: self._rig.bucket.base)

    def __getattr__(self, name: str):
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *args, **named: self._act(name, *args, **named)

    def _act(self, name, *args, **named):
        with self._lock:
            if self._die and self.acts >= self._die:
                raise Killed
            self.acts += 1
            naps = self.acts == self._nap
            if naps and not self._behind:
                self._sleep()
            result = getattr(self._rig.bucket, name)(*args, **named)
            if naps and self._behind:
                self._sleep()
            if self.acts == self._die:
                raise Killed
            return result

    def _sleep(self) -> None:
        rig = self._rig
        rig.clock.step("1h")
        with suppress(MissingError):
            grace_ns = parse_duration("10m")
            Sweeper(rig.queue(), grace_ns=grace_ns, clock=rig.clock).sweep()


def ship_and_sleep(batch_bytes: int, *, nap: int, die: int, behind: bool) -> int:
    """Give how many acts it took."""
    rig = Rig()
    with rig.open() as store:
        rig.fill(store, 2, 1, 2, *[1] * 7)
    rig.queue().start()
    bucket = Sleeper(rig, nap=nap, die=die, behind=behind)
    queue = Queue(bucket, clock=rig.clock, options=QueueOptions(page_entries=8))
    with suppress(Killed):
        rig.shipper(queue=queue, batch_bytes=batch_bytes, uploads=1).run()
    rig.disk.forget_locks()
    rig.ship(batch_bytes=batch_bytes)
    assert arrived(rig.bucket) == list(range(COUNT)), (nap, die)
    with rig.subscribe(NAME) as reader:
        assert peek(reader) == []
    return bucket.acts


@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize("batch_bytes", [1, 1 << 20])
def test_slept_at_any_act_and_killed_at_another(batch_bytes, behind) -> None:
    count = ship_and_sleep(batch_bytes, nap=0, die=0, behind=behind)
    assert count > 2
    pairs = [(nap, die) for nap in range(1, count + 1) for die in (0, nap, nap + 1, nap + 2)]
    for nap, die in pairs[::STEP]:
        ship_and_sleep(batch_bytes, nap=nap, die=die, behind=behind)
