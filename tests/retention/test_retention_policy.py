"""What goes and what must wait, as a pure function."""

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.config import RetentionConfig
from quiver.retention import (
    Drop,
    DropOpen,
    Evict,
    Expire,
    FinalizeEarly,
    SegmentUse,
    Throttle,
    Usage,
    decide,
)

POLICIES = ["backpressure", "drop_oldest"]


def config(cap, policy="backpressure", *, headroom=0):
    return RetentionConfig(size_cap=cap, size_cap_policy=policy, steady_state_headroom=headroom)


def used(*segments, wal=0, acks=0, quarantine=0):
    return Usage(wal, acks, tuple(segments), quarantine)


def open_segment(seq, size=10, *, claimed=False):
    return SegmentUse(seq, size, finished=False, claimed=claimed)


def done(seq, size=10):
    return SegmentUse(seq, size, finished=True)


SEGMENTS = st.lists(
    st.builds(SegmentUse, st.integers(0, 40), st.integers(0, 50), st.booleans(), st.booleans()),
    unique_by=lambda segment: segment.segment_seq,
    max_size=8,
).map(tuple)
SIZES = st.integers(0, 60)
USAGES = st.builds(Usage, SIZES, SIZES, SEGMENTS, SIZES)
CONFIGS = st.builds(config, st.integers(0, 200), st.sampled_from(POLICIES))


def test_all_rooms_count():
    usage = used(done(1, 4), open_segment(2, 5), wal=1, acks=2, quarantine=3)
    assert usage.total_bytes == 15


@pytest.mark.parametrize("cap", [0, 10**6])
@pytest.mark.parametrize("policy", POLICIES)
def test_finished_segments_go_even_with_room_to_spare_oldest_first(policy, cap):
    usage = used(done(9), open_segment(2), done(4))
    assert decide(usage, config(cap, policy)) == [Evict(4), Evict(9)]


@pytest.mark.parametrize("policy", POLICIES)
def test_exactly_at_the_cap_nothing_happens(policy):
    usage = used(open_segment(1), wal=5, acks=3, quarantine=2)
    assert decide(usage, config(20, policy)) == []


@pytest.mark.parametrize("policy", POLICIES)
def test_without_a_cap_nothing_unfinished_goes(policy):
    assert decide(used(open_segment(1, 10**15)), config(0, policy), incoming_bytes=10**15) == []


def test_over_the_cap_backpressure_refuses_and_deletes_nothing():
    usage = used(open_segment(1), open_segment(2), wal=5)
    actions = decide(usage, config(22), incoming_bytes=4)
    assert actions == [FinalizeEarly(), Throttle(7)]


def test_consuming_lets_appends_in_again():
    before = used(open_segment(1), open_segment(2))
    assert decide(before, config(20), incoming_bytes=5) == [Throttle(5)]
    after = used(done(1), open_segment(2))
    assert decide(after, config(20), incoming_bytes=5) == [Evict(1)]


def test_an_empty_log_has_nothing_to_finalize_early():
    assert decide(used(open_segment(1)), config(5)) == [Throttle(5)]


def test_drop_oldest_takes_the_oldest_until_it_fits_and_no_more():
    usage = used(*(open_segment(seq) for seq in (5, 3, 4, 6)))
    assert decide(usage, config(25, "drop_oldest")) == [Drop(3), Drop(4)]
    assert decide(usage, config(20, "drop_oldest")) == [Drop(3), Drop(4)]
    assert decide(usage, config(19, "drop_oldest")) == [Drop(3), Drop(4), Drop(5)]


def test_drop_oldest_evicts_finished_segments_before_it_drops():
    usage = used(open_segment(1), done(2), open_segment(3))
    assert decide(usage, config(20, "drop_oldest")) == [Evict(2)]
    assert decide(usage, config(15, "drop_oldest")) == [Evict(2), Drop(1)]


def test_drop_oldest_takes_claimed_segments_last():
    usage = used(open_segment(1, claimed=True), open_segment(2), open_segment(3, claimed=True))
    assert decide(usage, config(20, "drop_oldest")) == [Drop(2)]
    assert decide(usage, config(15, "drop_oldest")) == [Drop(2), Drop(1)]
    assert decide(usage, config(5, "drop_oldest")) == [Drop(2), Drop(1), Drop(3)]


def test_drop_oldest_drops_what_is_open_last_and_then_throttles():
    usage = used(open_segment(1, claimed=True), wal=30)
    assert decide(usage, config(30, "drop_oldest")) == [Drop(1)]
    assert decide(usage, config(25, "drop_oldest")) == [Drop(1), DropOpen()]
    usage = used(open_segment(1), wal=30, quarantine=40)
    assert decide(usage, config(25, "drop_oldest")) == [Drop(1), DropOpen(), Throttle(15)]


def test_with_nothing_open_there_is_nothing_open_to_drop():
    assert decide(used(quarantine=40), config(25, "drop_oldest")) == [Throttle(15)]


def test_room_that_is_kept_for_the_next_segment_counts():
    usage = Usage(wal_bytes=5, segments=(open_segment(1),), reserved_bytes=5)
    assert decide(usage, config(20)) == []
    assert decide(usage, config(19)) == [FinalizeEarly(), Throttle(1)]


def test_segments_that_are_not_listed_count():
    assert decide(Usage(pinned_bytes=30), config(20)) == [Throttle(10)]


def test_headroom_keeps_the_newest_of_what_is_finished():
    usage = used(*(done(seq) for seq in (1, 2, 3, 4)))
    assert decide(usage, config(0, headroom=20)) == [Evict(1), Evict(2)]
    assert decide(usage, config(0, headroom=29)) == [Evict(1), Evict(2)]
    assert decide(usage, config(0, headroom=40)) == []


def test_what_is_kept_in_the_headroom_goes_when_room_is_needed_or_others_want_it():
    usage = used(*(done(seq) for seq in (1, 2)), open_segment(3))
    assert decide(usage, config(40, headroom=20)) == []
    assert decide(usage, config(25, headroom=20)) == [Evict(1, for_room=True)]
    assert decide(usage, config(40, headroom=20), keep_headroom=False) == [Evict(1), Evict(2)]


def test_a_share_of_the_cap_stands_for_the_cap():
    usage = used(open_segment(1), open_segment(2))
    assert decide(usage, config(100), cap=15) == [Throttle(5)]
    assert decide(usage, config(10), cap=0) == []


@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_too_old_goes_first_whoever_needs_it(policy):
    old = SegmentUse(2, 10, finished=False, claimed=True, expired=True)
    usage = used(done(1), old, open_segment(3))
    assert decide(usage, config(0, policy)) == [Expire(2), Evict(1)]
    assert decide(usage, config(10, policy)) == [Expire(2), Evict(1)]


def test_what_is_too_old_makes_room_before_anything_younger_is_dropped():
    old = SegmentUse(5, 10, finished=False, expired=True)
    usage = used(open_segment(1), old, open_segment(6))
    assert decide(usage, config(20, "drop_oldest")) == [Expire(5)]
    assert decide(usage, config(19, "drop_oldest")) == [Expire(5), Drop(1)]


def test_without_headroom_even_what_takes_no_room_goes():
    usage = used(SegmentUse(0, 0, finished=True))
    assert decide(usage, config(0, "backpressure")) == [Evict(0)]


@given(USAGES, CONFIGS, SIZES)
def test_nothing_unfinished_goes_under_backpressure(usage, knobs, incoming):
    knobs = dataclasses.replace(knobs, size_cap_policy="backpressure")
    actions = decide(usage, knobs, incoming_bytes=incoming)
    finished = {segment.segment_seq for segment in usage.segments if segment.finished}
    assert {action.segment_seq for action in actions if isinstance(action, Evict)} == finished
    assert not any(isinstance(action, (Drop, DropOpen, Expire)) for action in actions)


@given(USAGES, CONFIGS, SIZES, SIZES)
def test_after_the_actions_it_fits_or_appends_wait(usage, knobs, incoming, headroom):
    knobs = dataclasses.replace(knobs, steady_state_headroom=headroom)
    actions = decide(usage, knobs, incoming_bytes=incoming)
    gone = {a.segment_seq for a in actions if isinstance(a, (Evict, Drop))}
    kept = tuple(s for s in usage.segments if s.segment_seq not in gone)
    after = dataclasses.replace(usage, segments=kept)
    if DropOpen() in actions:
        after = dataclasses.replace(after, wal_bytes=0)
    over = after.total_bytes + incoming - knobs.size_cap
    waits = [action.needed_bytes for action in actions if isinstance(action, Throttle)]
    assert waits == ([over] if knobs.size_cap and over > 0 else [])
    spared = [s for s in kept if s.finished]
    assert sum(s.bytes for s in spared) <= headroom
    if waits:
        assert not spared
    if waits and knobs.size_cap_policy == "drop_oldest":
        assert kept == ()
    assert isinstance(actions[-1], Throttle) == bool(waits) if actions else not waits


@given(USAGES, CONFIGS, st.randoms())
def test_the_same_usage_in_any_order_gives_the_same_actions(usage, knobs, random):
    shuffled = list(usage.segments)
    random.shuffle(shuffled)
    other = dataclasses.replace(usage, segments=tuple(shuffled))
    assert decide(other, knobs) == decide(usage, knobs)


def test_no_drop_is_more_than_needed_in_any_small_state():
    kinds = [(False, False), (False, True), (True, False)]
    for states in itertools.product(kinds, repeat=4):
        segments = tuple(SegmentUse(seq, 10, *state) for seq, state in enumerate(states))
        for cap in range(1, 46, 5):
            actions = decide(Usage(segments=segments), config(cap, "drop_oldest"))
            drops = [action.segment_seq for action in actions if isinstance(action, Drop)]
            unfinished = [s for s in segments if not s.finished]
            needed = max(0, -((cap - 10 * len(unfinished)) // 10))
            assert len(drops) == min(needed, len(unfinished))
            by_rank = sorted(unfinished, key=lambda s: (s.claimed, s.segment_seq))
            assert drops == [s.segment_seq for s in by_rank[: len(drops)]]
