"""Rare turns of deliveries: alarms that nobody waits for, runs over nacked bundles, odd reasons."""

import pytest

from quiver.errors import InputError
from quiver.subscriber import BundleHandle, Claim, Registry


def place(claim):
    return None if claim is None else (claim.segment_seq, claim.bundle_index, claim.attempt)


@pytest.fixture
def registry():
    registry = Registry()
    registry.register("spark")
    registry.add_segment(0, 3)
    return registry


def test_the_retry_time_of_a_bundle_that_was_acked_meanwhile_offers_nothing(registry):
    registry.nack(registry.claim("spark", 0), 10)
    registry.resolve("spark", 0, 0)
    assert registry.next_retry_ns("spark") is None
    taken = [place(registry.claim("spark", 20)) for _ in range(3)]
    assert taken == [(0, 1, 1), (0, 2, 1), None]


def test_an_acked_bundle_is_not_offered_at_its_old_retry_time_even_if_nobody_asked_for_it(registry):
    registry.nack(registry.claim("spark", 0), 10)
    registry.resolve("spark", 0, 0)
    taken = [place(registry.claim("spark", 10)) for _ in range(3)]
    assert taken == [(0, 1, 1), (0, 2, 1), None]


def test_only_the_last_of_two_retry_times_counts(registry):
    registry.nack(registry.claim("spark", 0), 10)
    registry.nack(registry.claim_at("spark", 0, 0), 50)
    taken = [place(registry.claim("spark", 20)) for _ in range(3)]
    assert taken == [(0, 1, 1), (0, 2, 1), None]
    assert registry.next_retry_ns("spark") == 50
    assert place(registry.claim("spark", 50)) == (0, 0, 3)


def test_a_run_of_acks_takes_the_nacks_inside_it_and_leaves_the_others(registry):
    for _ in range(3):
        registry.nack(registry.claim("spark", 0), 10)
    registry.add_segment(1, 1)
    registry.nack(registry.claim("spark", 0), 10)
    assert registry.resolve("spark", 0, 0, count=2) == 2
    [state] = registry.snapshot()
    places = [(nack.segment_seq, nack.bundle_index) for nack in state.nacks]
    assert places == [(0, 2), (1, 0)]
    assert registry.next_retry_ns("spark") == 10


class Untouched:
    """A delivery that nobody may ask for anything but to take the bundle back."""

    def __init__(self):
        self.deferred = []

    def defer(self, claim):
        self.deferred.append(claim)


@pytest.mark.parametrize("reason", [5, None, b"bytes", ValueError("text")])
def test_a_reason_that_is_no_text_is_no_outcome(reason):
    delivery, claim = Untouched(), Claim(1, 42, 7, 3)
    handle = BundleHandle(claim, delivery, subscriber="spark", slots=["logs"])
    with pytest.raises(InputError, match="reason"):
        handle.nack(reason=reason)
    assert not handle.resolved
    handle.defer()
    assert delivery.deferred == [claim]
