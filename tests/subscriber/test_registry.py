"""Subscribers side by side: who gets what, in which order, and when a segment may go."""

import itertools

import pytest

from quiver.errors import CapacityError, InputError, SubscriberError
from quiver.subscriber import NackSnapshot, Registry, SegmentSnapshot, SubscriberSnapshot

GOOD_NAMES = ["a", "0", "spark", "A.b-c_d", "x" * 128, "a.b.c"]
BAD_NAMES = [
    *("", "x" * 129, ".a", "-a", "_a", "a..b", "..", "a/b", "../a", "a b", "a\n", "a\0", "\n"),
    *("sp\u00e4rk", "\u0430cks", "\uff41", "x" * 300, None, 7, b"a"),
]


def registry_of(*names, segments=((0, 3), (1, 3))):
    registry = Registry()
    for name in names:
        registry.register(name)
    for seq, count in segments:
        registry.add_segment(seq, count)
    return registry


def place(claim):
    return None if claim is None else (claim.segment_seq, claim.bundle_index)


def claim_all(registry, name, now_ns=0):
    claims = []
    while (claim := registry.claim(name, now_ns)) is not None:
        claims.append(claim)
    return claims


@pytest.mark.parametrize("name", GOOD_NAMES)
def test_a_good_name_is_taken(name):
    registry = Registry()
    registry.register(name)
    assert registry.names() == [name]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_bad_name_is_refused(name):
    with pytest.raises(SubscriberError, match="not allowed"):
        Registry().register(name)


def test_registering_twice_is_fine():
    registry = Registry()
    assert registry.register("a") == registry.register("a") == registry.register("a", 1) == 1
    assert registry.ids == {"a": 1}


def test_a_name_or_an_id_belongs_to_one():
    registry = registry_of("a")
    with pytest.raises(SubscriberError):
        registry.register("a", 2)
    with pytest.raises(SubscriberError):
        registry.register("b", 1)
    for number in (0, -1, 1 << 16):
        with pytest.raises(SubscriberError):
            registry.register("b", number)


def test_an_id_is_not_used_again_while_there_are_others():
    registry = registry_of("a", "b")
    assert registry.unregister("b") == 2
    assert registry.next_id() == registry.register("c") == 3
    registry.register("last", 0xFFFF)
    assert registry.next_id() == 2


def test_more_subscribers_than_ids_are_refused():
    registry = Registry()
    for number in range(1, 1 << 16):
        registry.register(f"s{number}", number)
    with pytest.raises(CapacityError):
        registry.register("one-more")


@pytest.mark.parametrize(
    "call",
    [
        lambda r: r.claim("x", 0),
        lambda r: r.claim_at("x", 0, 0),
        lambda r: r.resolve("x", 0, 0),
        lambda r: r.drop("x", 0),
        lambda r: r.unregister("x"),
        lambda r: r.next_retry_ns("x"),
        lambda r: r.progress("x"),
        lambda r: r.name_of(9),
    ],
    ids=["claim", "claim_at", "resolve", "drop", "unregister", "retry", "progress", "name_of"],
)
def test_an_unknown_subscriber_is_an_error(call):
    with pytest.raises(SubscriberError):
        call(registry_of("a"))


def test_one_that_unregistered_gets_nothing_and_holds_nothing():
    registry = registry_of("a", "b")
    claim = registry.claim("b", 0)
    registry.resolve("a", 0, 0, count=3)
    assert not registry.finished(0)
    registry.unregister("b")
    assert registry.finished(0)
    registry.release(claim)
    registry.nack(claim, 5)
    with pytest.raises(SubscriberError):
        registry.claim("b", 0)


def test_a_new_subscriber_gets_what_is_there_and_what_comes():
    registry = registry_of("a")
    registry.register("b")
    registry.register("c", start_segment_seq=1)
    registry.register("d", start_segment_seq=2)
    registry.add_segment(2, 1)
    everything = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0)]
    assert [place(c) for c in claim_all(registry, "b")] == everything
    assert [place(c) for c in claim_all(registry, "c")] == everything[3:]
    assert [place(c) for c in claim_all(registry, "d")] == everything[6:]
    assert registry.progress("d").floor == 2


def test_two_subscribers_progress_apart_and_deletion_waits_for_both():
    registry = registry_of("a", "b", segments=[(0, 2)])
    registry.resolve("a", 0, 0, count=2)
    assert not registry.finished(0)
    assert place(registry.claim("b", 0)) == (0, 0)
    registry.resolve("b", 0, 1)
    assert not registry.finished(0)
    registry.resolve("b", 0, 0)
    assert registry.finished(0)


def test_a_segment_without_subscribers_is_never_finished():
    registry = registry_of()
    assert not registry.finished(0)
    assert not registry.finished(99)


def test_claimed_bundles_are_skipped_and_deferred_ones_return_first():
    registry = registry_of("a")
    first, second, _ = (registry.claim("a", 0) for _ in range(3))
    assert (first.attempt, registry.claimed(0), registry.claimed(1)) == (1, True, False)
    registry.release(second)
    assert registry.claim("a", 0) == second
    registry.resolve("a", 0, 0)
    assert place(registry.claim("a", 0)) == (1, 0)


def test_a_claim_given_back_twice_is_an_error():
    registry = registry_of("a")
    claim = registry.claim("a", 0)
    registry.release(claim)
    with pytest.raises(SubscriberError, match="not claimed"):
        registry.release(claim)
    with pytest.raises(SubscriberError, match="not claimed"):
        registry.nack(claim, 0)


def test_a_nacked_bundle_waits_and_comes_back_as_the_next_attempt():
    registry = registry_of("a", segments=[(0, 2)])
    claim = registry.claim("a", 100)
    registry.nack(claim, 500)
    assert registry.next_retry_ns("a") == 500
    assert place(registry.claim("a", 499)) == (0, 1)
    assert registry.claim("a", 499) is None
    again = registry.claim("a", 500)
    assert (place(again), again.attempt) == ((0, 0), 2)
    assert registry.next_retry_ns("a") is None
    registry.release(again)
    assert registry.claim("a", 500).attempt == 2


def test_the_earliest_retry_is_told_whatever_the_order_of_nacks():
    registry = registry_of("a")
    for due_ns in (300, 100, 200):
        registry.nack(registry.claim("a", 0), due_ns)
    assert registry.next_retry_ns("a") == 100
    assert place(registry.claim("a", 100)) == (0, 1)
    registry.resolve("a", 0, 2)
    assert registry.next_retry_ns("a") == 300


def test_what_waits_is_moved_with_a_clock_that_was_set_back():
    registry = registry_of("a")
    held, nacked, early = (registry.claim("a", 0) for _ in range(3))
    registry.nack(early, 990, at_ns=980)
    registry.nack(nacked, 1_005, at_ns=1_000)
    registry.member("a").see(1_002)
    assert registry.next_retry_ns("a") == 990
    registry.nack(held, 102, at_ns=100)  # The clock went from 1,002 to 100.
    assert [nack.not_before_ns for nack in registry.snapshot()[0].nacks] == [102, 103, 88]
    registry.claim("a", 0, limit=3)
    assert place(registry.claim("a", 102)) == (0, 0)
    registry.member("a").see(10)
    assert [nack.not_before_ns for nack in registry.snapshot()[0].nacks] == [12, 13, 0]
    assert place(registry.claim("a", 12)) == (0, 2)
    assert registry.next_retry_ns("a") == 13


@pytest.mark.parametrize("at_ns", [1_000, 0])
def test_a_clock_that_was_set_back_is_noticed_after_a_replay(at_ns):
    registry = registry_of("a", segments=[(0, 1)])
    registry.replay_nack(1, NackSnapshot(0, 0, 1, 1_005, at_ns))
    registry.replay_seen(1, 1_000)
    snapshot = registry.snapshot()
    registry.restore(snapshot, {0: 1})
    registry.member("a").see(50)
    assert registry.next_retry_ns("a") == 55
    assert registry.snapshot()[0].last_seen_ns == 50


def test_claim_by_reference_works_after_defer_and_while_waiting():
    registry = registry_of("a")
    registry.release(registry.claim("a", 0))
    claim = registry.claim_at("a", 0, 0)
    registry.nack(claim, 10**18)
    again = registry.claim_at("a", 0, 0)
    assert again.attempt == 2
    assert registry.next_retry_ns("a") is None
    assert place(registry.claim_at("a", 1, 2)) == (1, 2)


def test_claim_by_reference_is_refused_when_resolved_claimed_or_not_there():
    registry = registry_of("a")
    registry.resolve("a", 0, 0)
    registry.claim_at("a", 0, 1)
    for seq, index in [(0, 0), (0, 1), (0, 3), (0, -1), (7, 0)]:
        with pytest.raises(SubscriberError):
            registry.claim_at("a", seq, index)


def test_a_double_ack_counts_once_and_is_an_error():
    registry = registry_of("a")
    assert registry.resolve("a", 0, 1) == 1
    with pytest.raises(SubscriberError, match="resolved before"):
        registry.resolve("a", 0, 1)
    assert registry.resolve("a", 0, 0, count=3) == 2
    assert registry.progress("a").lag == 3


@pytest.mark.parametrize("seq, first, count", [(0, 3, 1), (0, 2, 2), (0, -1, 1), (9, 0, 1)])
def test_an_outcome_out_of_range_is_refused(seq, first, count):
    registry = registry_of("a")
    with pytest.raises(SubscriberError):
        registry.resolve("a", seq, first, count=count)
    assert registry.progress("a").lag == 6


def test_a_drop_abandons_claims_and_a_later_ack_is_harmless():
    registry = registry_of("a", "b", segments=[(0, 3), (1, 3), (2, 3)])
    registry.resolve("a", 0, 0)
    acked, nacked, lost = (registry.claim("a", 0) for _ in range(3))
    assert registry.drop("a", 0) == 2
    assert registry.drop("a", 0) == 0
    assert registry.drop("a", 77) == 0
    assert registry.progress("a").floor == 1
    assert not registry.claimed(0)
    assert registry.settle(acked) == 0
    registry.nack(nacked, 5)
    registry.release(lost)
    assert registry.next_retry_ns("a") is None
    assert not registry.finished(0)
    assert registry.drop("b", 0) == 3
    assert registry.finished(0)
    with pytest.raises(SubscriberError):
        registry.settle(acked)


def test_a_removed_segment_is_forgotten_by_all_and_a_later_ack_is_harmless():
    registry = registry_of("a", "b")
    claim, other = registry.claim("a", 0), registry.claim("b", 0)
    registry.nack(registry.claim("a", 0), 50)
    registry.remove_segment(0)
    registry.remove_segment(0)
    assert registry.segments() == [(1, 3)]
    assert registry.settle(claim) == 0
    registry.release(other)
    assert registry.next_retry_ns("a") is None
    assert place(registry.claim("a", 100)) == (1, 0)
    assert registry.snapshot()[0].nacks == ()


def test_a_segment_added_twice_is_one_and_never_another():
    registry = registry_of("a")
    registry.resolve("a", 0, 0)
    registry.add_segment(0, 3)
    assert registry.progress("a").lag == 5
    with pytest.raises(InputError):
        registry.add_segment(0, 4)


def test_every_order_of_acks_of_two_subscribers_ends_finished_and_not_before():
    bundles = [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("b", 2)]
    for order in itertools.permutations(bundles):
        registry = registry_of("a", "b", segments=[(0, 3)])
        for name, index in order:
            assert not registry.finished(0)
            registry.resolve(name, 0, index)
        assert registry.finished(0)


def test_every_state_of_three_segments_is_claimed_and_restored_right():
    """Every order of acks is a way through these 512 states; each next ack is taken from each."""
    segments = dict.fromkeys(range(3), 3)
    for mask in itertools.product((False, True), repeat=9):
        registry = registry_of("a", "b", segments=segments.items())
        bundles = list(itertools.product(range(3), range(3)))
        done = {bundle for bundle, resolved in zip(bundles, mask, strict=True) if resolved}
        for seq, index in done:
            registry.resolve("a", seq, index)
        still = [bundle for bundle in bundles if bundle not in done]
        progress = registry.progress("a")
        assert progress.floor == (still[0][0] if still else 3)
        assert [place(c) for c in claim_all(registry, "a")] == still
        assert [place(c) for c in claim_all(registry, "b")] == bundles
        other = Registry()
        other.restore(registry.snapshot(), segments)
        assert [place(c) for c in claim_all(other, "a")] == still
        assert [place(c) for c in claim_all(other, "b")] == bundles
        assert other.snapshot() == registry.snapshot()
        for seq, index in still:
            other.restore(registry.snapshot(), segments)
            assert other.resolve("a", seq, index) == 1
            left = [bundle for bundle in still if bundle != (seq, index)]
            assert other.progress("a").floor == (left[0][0] if left else 3)
            assert [place(c) for c in claim_all(other, "a")] == left
            assert not any(other.finished(seq) for seq in segments)


def test_a_snapshot_has_what_must_outlive_a_restart():
    registry = registry_of("b", "a", segments=[(4, 2), (5, 4), (6, 2)])
    registry.resolve("a", 4, 0, count=2)
    registry.resolve("a", 5, 1)
    registry.resolve("a", 5, 3)
    claim = registry.claim("a", 0)
    registry.nack(claim, 70)
    registry.claim("a", 0)
    segment = SegmentSnapshot(5, 4, ((1, 1), (3, 1)))
    assert registry.snapshot() == (
        SubscriberSnapshot(1, "b", 4),
        SubscriberSnapshot(2, "a", 5, (segment,), (NackSnapshot(5, 0, 1, 70),)),
    )


def test_a_restart_keeps_attempts_and_times_and_forgets_claims():
    registry = registry_of("a")
    registry.claim("a", 0)
    registry.nack(registry.claim("a", 0), 70)
    other = Registry()
    other.restore(registry.snapshot(), {0: 3, 1: 3})
    assert other.next_retry_ns("a") == 70
    assert place(other.claim("a", 69)) == (0, 0)
    again = other.claim("a", 70)
    assert (place(again), again.attempt) == ((0, 1), 2)


def test_a_restart_over_other_segments_believes_the_segments():
    runs = SegmentSnapshot(5, 10, ((0, 2), (7, 3))), SegmentSnapshot(6, 2, ((0, 1),))
    nacks = NackSnapshot(5, 8, 1, 70), NackSnapshot(5, 3, 2, 80), NackSnapshot(6, 1, 1, 60)
    registry = Registry()
    registry.restore([SubscriberSnapshot(4, "a", 5, runs, nacks)], {3: 2, 5: 8, 7: 1})
    progress = registry.progress("a")
    assert progress.open_runs(5) == [(2, 5)]
    assert (progress.outstanding(3), progress.outstanding(7)) == (0, 1)
    assert registry.snapshot()[0].nacks == (NackSnapshot(5, 3, 2, 80),)
    assert registry.next_id() == 5


def test_replay_takes_what_a_log_says_however_odd():
    registry = registry_of()
    registry.replay_resolved(1, 0, 0, count=3)
    registry.replay_unregister(1)
    registry.replay_nack(1, NackSnapshot(0, 0, 1, 5))
    registry.replay_register(1, "a")
    assert registry.replay_resolved(1, 0, 1, count=100) == 2
    assert registry.replay_resolved(1, 0, 1, count=1) == 0
    assert registry.replay_resolved(1, 0, 9, count=1) == 0
    assert registry.replay_resolved(1, 99, 0, count=1) == 0
    registry.replay_nack(1, NackSnapshot(0, 1, 1, 5))
    registry.replay_nack(1, NackSnapshot(99, 1, 1, 5))
    registry.replay_nack(1, NackSnapshot(0, 0, 3, 5))
    assert registry.claim("a", 5).attempt == 4
    registry.replay_register(2, "a")
    assert registry.ids == {"a": 2}
    registry.replay_register(2, "b")
    assert registry.ids == {"b": 2}
    assert registry.progress("b").lag == 6


def test_a_register_starts_an_id_from_nothing():
    registry = registry_of("a")
    registry.resolve("a", 0, 0, count=3)
    registry.replay_register(1, "a")
    assert registry.progress("a").lag == 6
