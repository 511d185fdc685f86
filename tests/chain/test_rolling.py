"""From one block to the next: the order of acts, and what goes wrong between them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from record_kit import CHAIN, begun

from quiver.chain.record import Claim, Following, Record, claimed, committed
from quiver.chain.rolling import (
    Answered,
    Broken,
    Claimed,
    ClaimNow,
    CommitNow,
    Committed,
    CutNow,
    FenceNow,
    Grew,
    Healed,
    Placed,
    PlaceNow,
    Ready,
    RollRules,
    TimeUp,
    Widen,
    begin,
    close,
    step,
)
from quiver.chain.rolling.roll import Phase
from quiver.chain.sealing import Answer, Sealed
from quiver.errors import InputError

RULES = RollRules("loader", soft_bytes=1000)
NEXT = ("node-c", "node-d", "node-e")


def said(location, length=1000):
    return Answer(location, length, 9, 1, 10)


def writing():
    roll, acts = begin(RULES, begun())
    assert acts == ()
    return roll


def after_claim(roll):
    return step(roll, Claimed(claimed(roll.record, "loader")))


def carried_out(roll, acts):
    """Put what a commit asks for."""
    (act,) = acts
    assert isinstance(act, CommitNow)
    record = committed(roll.record, act.claim, act.sealed, following=act.following)
    return step(roll, Committed(record))


def test_a_planned_roll_prepares_ahead_and_then_claims_fences_commits_and_cuts():
    roll = writing()
    assert step(roll, Grew(899)) == (roll, ())
    roll, acts = step(roll, Grew(900))
    assert acts == (PlaceNow(1, frozenset(), ahead=True),)
    assert step(roll, Grew(950)) == (roll, ())
    roll, acts = step(roll, Ready(1, NEXT))
    assert acts == ()
    roll, acts = step(roll, Grew(1000))
    assert acts == (ClaimNow("loader"),)
    roll, acts = after_claim(roll)
    assert acts == (FenceNow(0, 2, CHAIN),)
    for location in CHAIN:
        assert acts == (FenceNow(0, 2, CHAIN),)
        roll, more = step(roll, Answered(2, said(location)))
        acts = more or acts
    sealed = Sealed(1000, 9, 1, 10, CHAIN)
    assert acts == (CommitNow(Claim(2, "loader"), sealed, Following("loader", NEXT)),)
    roll, acts = carried_out(roll, acts)
    assert acts == (CutNow(0, sealed),)
    assert roll.record.open.locations == NEXT
    assert (roll.phase, roll.ready, roll.is_placing) == (Phase.WRITING, (), False)


def test_until_the_new_place_is_ready_the_old_block_goes_on():
    """R11: it overshoots, and nothing is refused."""
    roll, _ = step(writing(), Grew(900))
    for length in range(1000, 5000, 100):
        assert step(roll, Grew(length)) == (roll, ())
    roll, _ = step(roll, Ready(1, NEXT))
    assert step(roll, Grew(5000))[1] == (ClaimNow("loader"),)


def test_a_roll_comes_at_the_limit_and_parts_no_run_of_equal_times():
    """R10, R15: blocks have the limit, one bundle more, and what has the time of that."""
    roll, _ = step(writing(), Grew(950))
    roll, _ = step(roll, Ready(1, NEXT))
    for length in (999, 1000, 1500):
        assert step(roll, Grew(length, is_later=length < 1000)) == (roll, ())
    assert step(roll, Grew(1501))[1] == (ClaimNow("loader"),)


def test_no_event_but_size_and_faults_rolls():
    """R12: there is no time in what a roll is told of a block that grows."""
    roll = writing()
    for _ in range(1000):
        assert step(roll, Grew(3)) == (roll, ())


def narrow():
    """Two locations of three."""
    roll = writing()
    opened = roll.record.open._replace(locations=CHAIN[:2])
    return replace(roll, record=roll.record._replace(open=opened, rf=3))


def test_a_block_with_too_few_locations_is_ended_when_there_are_nodes_for_more():
    roll, acts = step(narrow(), Widen())
    assert acts == (PlaceNow(1, frozenset(), ahead=True),)
    assert step(roll, Widen()) == (roll, ())
    roll, acts = step(roll, Ready(1, NEXT))
    assert acts == (ClaimNow("loader"),)
    assert roll.ready == NEXT


def test_what_was_made_ready_for_more_copies_and_has_no_more_is_not_taken():
    roll, _ = step(narrow(), Widen())
    for made in (NEXT[:2], ()):
        again, acts = step(roll, Ready(1, made))
        assert acts == ()
        assert (again.ready, again.is_placing, again.is_widening) == ((), False, False)
        assert step(again, Widen())[1] == (PlaceNow(1, frozenset(), ahead=True),)


def test_what_is_ready_or_on_its_way_serves_for_more_copies_as_well():
    placing, _ = step(narrow(), Grew(900))
    waiting, acts = step(placing, Widen())
    assert acts == ()
    assert step(waiting, Ready(1, NEXT))[1] == (ClaimNow("loader"),)
    ready, _ = step(placing, Ready(1, NEXT))
    assert step(ready, Widen())[1] == (ClaimNow("loader"),)


def test_a_block_with_all_of_its_locations_is_not_ended_for_more():
    roll = writing()
    ready, _ = step(step(roll, Widen())[0], Ready(1, NEXT))
    assert ready.phase is Phase.WRITING
    claiming, _ = step(narrow(), Broken())
    assert step(claiming, Widen()) == (claiming, ())


@pytest.mark.parametrize("silent", CHAIN)
def test_who_does_not_promise_is_not_in_the_next_block_though_it_made_room_before(silent):
    roll, _ = step(writing(), Grew(950))
    roll, _ = step(roll, Ready(1, ("node-x", silent)))
    roll, _ = step(roll, Broken())
    roll, _ = after_claim(roll)
    for location in CHAIN:
        if location != silent:
            roll, _ = step(roll, Answered(2, said(location)))
    roll, acts = step(roll, TimeUp())
    assert acts == (PlaceNow(1, frozenset(), ahead=False),)
    assert step(roll, Ready(1, ("node-x", silent))) == (roll, ())


def test_a_fault_seals_with_who_answers_and_avoids_the_pair_from_then_on():
    roll, acts = step(writing(), Broken(("node-c", "node-b")))
    assert acts == (ClaimNow("loader"),)
    roll, _ = after_claim(roll)
    roll, acts = step(roll, Answered(2, said("node-b", 700)))
    assert acts == ()
    roll, acts = step(roll, TimeUp())
    avoid = frozenset({("node-b", "node-c")})
    assert acts == (PlaceNow(1, avoid, ahead=False),)
    roll, acts = step(roll, Placed(NEXT))
    assert acts[0].sealed.keep == ("node-b",)
    roll, acts = carried_out(roll, acts)
    assert acts == (CutNow(0, Sealed(700, 9, 1, 10, ("node-b",))),)
    roll, acts = step(roll, Grew(900))
    assert acts == (PlaceNow(2, avoid, ahead=True),)
    roll, _ = step(roll, Ready(2, ()))  # It did not come about, and is asked for again.
    roll, acts = step(roll, Grew(901))
    assert acts == (PlaceNow(2, avoid, ahead=True),)
    assert step(roll, Healed(("node-b", "node-c")))[0].avoid == frozenset()


def test_a_chain_that_was_ready_is_let_go_if_a_pair_of_it_breaks():
    roll, _ = step(writing(), Grew(900))
    roll, _ = step(roll, Ready(1, NEXT))
    whole, _ = step(roll, Broken(("node-a", "node-c")))
    assert whole.ready == NEXT
    roll, _ = step(roll, Broken(("node-d", "node-c")))
    assert roll.ready == ()


def test_a_chain_that_was_chosen_before_a_pair_broke_is_not_taken():
    roll, _ = step(writing(), Grew(900))
    roll, _ = step(roll, Broken(("node-d", "node-c")))
    assert step(roll, Ready(1, NEXT)) == (roll, ())


def test_without_an_answer_it_is_asked_again_and_nothing_is_invented():
    roll, _ = step(writing(), Broken())
    roll, _ = after_claim(roll)
    for _ in range(3):
        roll, acts = step(roll, TimeUp())
        assert acts == (FenceNow(0, 2, CHAIN),)
    roll, _ = step(roll, Answered(2, said("node-a")))
    assert isinstance(step(roll, TimeUp())[1][0], PlaceNow)


def test_what_is_told_late_or_twice_changes_nothing():
    roll = writing()
    late = (
        Answered(1, said("node-a")),
        TimeUp(),
        Placed(NEXT),
        Claimed(claimed(roll.record, "loader")),
        Committed(roll.record),
    )
    for event in late:
        assert step(roll, event) == (roll, ())
    broken, _ = step(roll, Broken())
    assert step(broken, Grew(5000)) == (broken, ())
    assert step(broken, Broken()) == (broken, ())
    fencing, _ = after_claim(broken)
    assert step(fencing, Answered(1, said("node-a", 5))) == (fencing, ())
    fencing, _ = step(fencing, Answered(2, said("node-a")))
    assert step(fencing, Answered(2, said("node-a"))) == (fencing, ())
    assert step(roll, Ready(7, NEXT))[0].ready == ()


def test_an_empty_block_is_dropped_and_its_number_with_it():
    roll, _ = step(writing(), Broken())
    roll, _ = after_claim(roll)
    roll, _ = step(roll, Answered(2, Answer("node-a", 0, -1, 0, 0)))
    roll, _ = step(roll, TimeUp())
    roll, acts = step(roll, Placed(NEXT))
    roll, acts = carried_out(roll, acts)
    assert roll.record.recent == ()
    assert roll.record.open.number == 1
    assert acts[0].sealed.length == 0


def test_who_comes_anew_ends_what_there_is_and_goes_on_with_what_is_his():
    other = RollRules("other", soft_bytes=1000)
    roll, acts = begin(other, begun())
    assert acts == (ClaimNow("other"),)
    with pytest.raises(InputError, match="claimed by 'loader', not 'other'"):
        after_claim(roll)
    roll, acts = step(roll, Claimed(claimed(roll.record, "other", takes_over=True)))
    assert acts == (FenceNow(0, 2, CHAIN),)
    assert begin(RULES, claimed(begun(), "loader"))[1] == (ClaimNow("loader"),)
    roll, acts = begin(RULES, Record())
    roll, acts = after_claim(roll)
    assert acts == (PlaceNow(0, frozenset(), ahead=False),)
    roll, acts = step(roll, Placed(NEXT))
    roll, acts = carried_out(roll, acts)
    assert acts == ()
    assert roll.record.open.locations == NEXT


def test_a_partition_that_is_closed_has_no_open_block():
    roll, acts = close(writing())
    assert acts == (ClaimNow("loader"),)
    roll, _ = after_claim(roll)
    for location in CHAIN:
        roll, acts = step(roll, Answered(2, said(location)))
    assert acts[0].following is None
    roll, acts = carried_out(roll, acts)
    assert isinstance(acts[0], CutNow)
    assert (roll.phase, roll.record.open, roll.record.writer) == (Phase.CLOSED, None, "")
    assert step(roll, Broken()) == (roll, ())


def test_to_close_in_the_midst_of_a_commit_ends_the_next_block_too():
    roll, _ = step(writing(), Grew(900))
    roll, _ = step(roll, Ready(1, NEXT))
    roll, _ = step(roll, Grew(1000))
    roll, _ = after_claim(roll)
    for location in CHAIN:
        roll, acts = step(roll, Answered(2, said(location)))
    closing, more = close(roll)
    assert more == ()
    closing, acts = carried_out(closing, acts)
    assert [type(act) for act in acts] == [CutNow, ClaimNow]
    assert closing.record.open.number == 1
