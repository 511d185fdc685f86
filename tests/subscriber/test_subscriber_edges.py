"""Rare turns of deliveries: alarms that nobody waits for, runs over nacked bundles, odd reasons."""

import pytest

from quiver.errors import InputError, SubscriberError
from quiver.subscriber import BundleHandle, BundleRun, Claim, Registry
from quiver.subscriber.order import Ranked


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


def test_ranks_that_leave_bundles_out_offer_only_the_others(registry):
    order = Ranked(lambda _: [(1.0, 1, 1)])
    taken = [place(registry.claim("spark", 0, order=order)) for _ in range(2)]
    assert taken == [(0, 1, 1), None]
    assert place(registry.claim("spark", 0)) == (0, 0, 1)


def test_a_name_that_somebody_has_is_given_to_nobody_else_but_by_a_log(registry):
    other = registry.register("flink")
    with pytest.raises(SubscriberError, match="there is a subscriber 'flink' already"):
        registry.rename("spark", "flink")
    assert registry.names() == ["flink", "spark"]
    spark = registry.ids["spark"]
    registry.replay_rename(spark, "flink")
    assert registry.ids == {"flink": spark}
    registry.replay_rename(other, "spark")  # That one has gone.
    assert registry.ids == {"flink": spark}


def test_what_a_log_says_of_an_id_that_nobody_has_changes_nothing(registry):
    before = registry.snapshot()
    registry.replay_paused(9, paused=True)
    registry.replay_lease(9, 5)
    registry.replay_seen(9, 5)
    assert registry.snapshot() == before


class Nothing:
    """A delivery that takes each outcome."""

    def ack(self, claim):
        pass


def test_a_run_that_has_its_outcome_is_not_gone_through():
    run = BundleRun(Claim(1, 0, 0, 1, 3), Nothing(), subscriber="spark", slots=["logs"])
    run.ack()
    with pytest.raises(SubscriberError, match="bundles 0 to 2 of segment 0"):
        iter(run)
