"""How fast a store goes, from two looks at it."""

from __future__ import annotations

import pytest
from top_kit import changed, core, look, subscriber

from quiver.cli.live.rates import HISTORY_MAX, History, Rate, rates_between


def between(before, after, seconds=2.0):
    return rates_between(look(before), look(after, at=seconds))


def test_bundles_are_those_that_got_a_number_and_bytes_those_that_are_open_more() -> None:
    before = core()
    after = changed(before, next_wal_seq=35, open_bundle_count=15, open_bytes=1700)
    rates = between(before, after)
    assert rates.total == rates.cores[0] == Rate(5.0, 600.0)


def test_bytes_of_what_became_a_segment_meanwhile_are_those_of_the_open_ones_on_average() -> None:
    before = core()
    after = changed(
        before,
        next_wal_seq=45,
        next_finalized_seq=41,
        open_bundle_count=4,
        open_bytes=800,
        next_segment_seq=3,
    )
    assert between(before, after).total == Rate(10.0, 2000.0)


def test_bytes_are_those_of_segments_if_nothing_was_ever_open() -> None:
    before = core(next_wal_seq=20, open_bundle_count=0, open_bytes=0)
    after = changed(before, next_wal_seq=30, next_finalized_seq=30)
    assert between(before, after).total == Rate(5.0, 500.0)


def test_all_cores_add_up_and_one_that_is_new_counts_from_its_second_look() -> None:
    before, other = core(0), core(1)
    more = {"next_wal_seq": 45, "open_bytes": 700}
    after = look(changed(before, **more), changed(other, **more), core(7), at=2)
    rates = rates_between(look(before, other), after)
    assert rates.total == Rate(20.0, 200.0)
    assert rates.cores[7] == Rate()


@pytest.mark.parametrize(
    "finalized, left, done",
    [
        (20, 10, 0.0),  # Nothing happened.
        (20, 4, 3.0),  # Six of those that were open are done.
        (40, 30, 0.0),  # Twenty came, and are open.
        (40, 0, 15.0),  # All of them are done: ten that were open, and twenty that came.
        (20, 90, 0.0),  # It began anew.
    ],
)
def test_what_a_subscriber_got_done_is_what_came_less_what_is_open_more(
    finalized, left, done
) -> None:
    before = core(subscribers=(subscriber(bundle_count=10),))
    after = changed(
        before,
        next_finalized_seq=finalized,
        subscribers=(subscriber(bundle_count=left), subscriber("new", bundle_count=5)),
    )
    assert between(before, after).done == {"lake": done}


def test_what_a_process_of_its_own_is_done_with_counts_before_it_is_folded_in() -> None:
    before = core(subscribers=(subscriber(bundle_count=10),))
    after = changed(before, subscribers=(subscriber(bundle_count=10, unfolded_count=8),))
    assert between(before, after).done == {"lake": 4.0}
    folded = changed(before, subscribers=(subscriber(bundle_count=2),))
    assert between(after, folded).done == {"lake": 0.0}


@pytest.mark.parametrize(
    "before, after",
    [
        (None, look(core())),
        (look(core(), at=1), look(core(), at=1)),
        (look(core(), at=2), look(core(), at=1)),
        (look(problem="gone"), look(core(), at=1)),
        (look(core()), look(problem="gone", at=1)),
        (look(core()), look(core(), at=1, store_id="1" * 32)),
    ],
)
def test_there_are_no_rates_without_two_looks_at_one_store(before, after) -> None:
    assert rates_between(before, after) is None


def test_what_went_back_or_could_not_be_read_has_no_rate() -> None:
    before = core()
    assert between(before, changed(before, next_wal_seq=3, open_bytes=0)).total == Rate()
    unread = changed(before, next_wal_seq=99, problem="no")
    assert between(before, unread).total == between(unread, before).total == Rate()


def test_the_history_has_the_last_rates_oldest_first() -> None:
    history = History()
    assert history.bundles(10) == []
    for number in range(HISTORY_MAX + 5):
        history.add(Rate(number))
    assert history.bundles(3) == [HISTORY_MAX + 2, HISTORY_MAX + 3, HISTORY_MAX + 4]
    assert len(history.bundles(10_000)) == HISTORY_MAX
    assert history.bundles(0) == history.bundles(-1) == []
