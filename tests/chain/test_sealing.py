"""Who may write to a block, and where it ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.chain.sealing import Answer, Copy, Frame, Sealed, Wait, admit, decide, promise
from quiver.errors import FencedError, InputError

CHAIN = ("a", "b", "c")


def said(location: str, length: int, *, is_rebooted: bool = False) -> Answer:
    return Answer(location, length, length - 1, 3, 10 * length, is_rebooted=is_rebooted)


def test_the_shortest_that_answered_counts_and_longer_ones_are_kept() -> None:
    found = decide(CHAIN, [said("c", 5), said("a", 9)], is_synced=True)
    assert found == Sealed(5, 4, 3, 50, ("a", "c"))


def test_one_answer_is_enough_and_none_is_not() -> None:
    assert decide(CHAIN, [said("b", 7)], is_synced=True) == Sealed(7, 6, 3, 70, ("b",))
    assert decide(CHAIN, [], is_synced=True) == Wait(CHAIN)


def test_without_syncs_a_machine_that_started_anew_is_not_asked() -> None:
    answers = [said("a", 9), said("b", 2, is_rebooted=True), said("c", 9, is_rebooted=True)]
    assert decide(CHAIN, answers, is_synced=False) == Sealed(9, 8, 3, 90, ("a", "c"))


def test_if_all_started_anew_all_have_to_answer_and_the_longest_counts() -> None:
    answers = [said("a", 3, is_rebooted=True), said("b", 6, is_rebooted=True)]
    assert decide(CHAIN, answers, is_synced=False) == Wait(("c",))
    answers.append(said("c", 4, is_rebooted=True))
    assert decide(CHAIN, answers, is_synced=False) == Sealed(6, 5, 3, 60, ("b",))


def test_a_stranger_is_refused() -> None:
    with pytest.raises(InputError, match="x is no location"):
        decide(CHAIN, [said("x", 1)], is_synced=True)


@given(st.dictionaries(st.sampled_from(CHAIN), st.integers(0, 9), min_size=1))
def test_whoever_is_kept_has_all_of_the_block(lengths: dict[str, int]) -> None:
    found = decide(CHAIN, [said(*each) for each in lengths.items()], is_synced=True)
    assert isinstance(found, Sealed)
    assert found.length == min(lengths.values())
    assert set(found.keep) == set(lengths)
    assert list(found.keep) == sorted(found.keep)


def test_frames_go_in_one_behind_the_other() -> None:
    copy = admit(admit(Copy(3, 0), Frame(3, 0, 10)), Frame(3, 10, 5))
    assert copy == Copy(3, 15)
    for offset in (0, 14, 16):
        with pytest.raises(InputError, match="came to a block of 15 bytes"):
            admit(copy, Frame(3, offset, 1))
    with pytest.raises(InputError, match="0 bytes"):
        admit(copy, Frame(3, 15, 0))


def test_an_epoch_that_was_promised_lets_no_smaller_one_in() -> None:
    copy = promise(Copy(3, 15), 5)
    assert promise(copy, 5) == copy
    with pytest.raises(FencedError, match="epoch 3") as fenced:
        admit(copy, Frame(3, 15, 1))
    assert (fenced.value.epoch, fenced.value.current) == (3, 5)
    with pytest.raises(FencedError):
        promise(copy, 4)
    with pytest.raises(InputError, match="5 was promised"):
        admit(copy, Frame(6, 15, 1))
