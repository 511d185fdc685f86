"""One auditor at a time, by clocks that have nothing in common."""

from __future__ import annotations

import pytest

from quiver.chain.metadata import BucketMetadata
from quiver.chain.placing import Lease
from quiver.chain.placing.lease import HELD_NS
from quiver.errors import DamageError
from quiver.ship.objects import MemoryBucket, UnclearError
from quiver.testing.manual_clock import ManualClock


class Fickle(BucketMetadata):
    """Gives no answers now and then."""

    is_down = False

    def get(self, key):
        if self.is_down:
            raise UnclearError("down", path=key, retryable=True)
        return super().get(key)


@pytest.fixture
def metadata():
    return Fickle(MemoryBucket())


def taker(metadata, name, start=1):
    clock = ManualClock(monotonic_ns=start, wall_ns=start)
    return Lease(metadata, "auditor", name, clock=clock), clock


def test_the_first_has_it_and_keeps_it_as_long_as_it_counts(metadata):
    (a, clock_a), (b, clock_b) = taker(metadata, "a"), taker(metadata, "b", 10**15)
    assert a.look()
    for _ in range(20):
        assert not b.look()
        clock_a.step(2)
        clock_b.step(2)
        assert a.look()
    assert not b.is_held


def test_another_takes_it_when_the_holder_is_dead_and_no_sooner(metadata):
    """R36: the duty passes on, six seconds after a count that was the last one."""
    (a, _), (b, clock) = taker(metadata, "a"), taker(metadata, "b", 10**15)
    assert a.look()
    assert not b.look()
    clock.step(5.9)
    assert not b.look()
    clock.step(0.1)
    assert b.look()


def test_who_stood_still_learns_that_it_is_another_s(metadata):
    (a, clock_a), (b, clock_b) = taker(metadata, "a"), taker(metadata, "b")
    assert a.look()
    assert not b.look()
    clock_b.step(6)
    assert b.look()
    assert a.look()  # Its own two seconds are not over; both act, and every act is a swap.
    clock_a.step(2)
    assert not a.look()
    assert not a.is_held
    clock_a.step(6)
    clock_b.step(2)
    assert b.look()
    assert not a.look()


def test_of_two_who_take_it_at_once_one_has_it(metadata):
    (a, _), (b, clock_b), (c, clock_c) = (taker(metadata, name) for name in "abc")
    assert a.look()
    assert not b.look()
    assert not c.look()
    clock_b.step(6)
    clock_c.step(6)
    assert [b.look(), c.look()] == [True, False]


def test_without_metadata_nobody_holds_it(metadata):
    a, clock = taker(metadata, "a")
    assert a.look()
    clock.step(2)
    metadata.is_down = True
    with pytest.raises(UnclearError):
        a.look()
    assert not a.is_held
    metadata.is_down = False
    assert a.look()


@pytest.mark.parametrize(
    "data", [b"{", b"[]", b"{}", b'{"holder": 1, "counter": 1}', b'{"holder": "x", "counter": 0}']
)
def test_what_is_no_lease_is_damage(metadata, data):
    metadata.cas("auditor", None, data)
    with pytest.raises(DamageError, match="memory:/auditor"):
        taker(metadata, "a")[0].look()


def test_what_is_no_lease_is_taken_when_nobody_mends_it(metadata):
    metadata.cas("auditor", None, b"{")
    lease, clock = taker(metadata, "a")
    for _ in range(2):
        with pytest.raises(DamageError):
            lease.look()
        clock.step(1)
    clock.step(HELD_NS / 1e9)
    assert lease.look()
    assert not taker(metadata, "b")[0].look()
