"""The kit's look at a race finds what a place does wrong, and only that."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quiver.chain.metadata import BucketMetadata
from quiver.chain.metadata.store import Kept
from quiver.ship.objects import Conflict, MemoryBucket, UnclearError
from quiver.testing.metadata_conformance import Step, check_steps, step_up

FIRST = b"0 nobody"


class Bent:
    """A place whose cas of one number is done by ``bent``, with what it should do."""

    def __init__(self, inner, number: int, bent: Callable[[Callable[[], str]], str]) -> None:
        self._inner = inner
        self._number = number
        self._bent = bent
        self.calls = 0

    def get(self, key: str) -> Kept:
        return self._inner.get(key)

    def cas(self, key, revision, data):
        self.calls += 1

        def honest() -> str:
            return self._inner.cas(key, revision, data)

        return self._bent(honest) if self.calls == self._number else honest()


@pytest.fixture
def inner():
    metadata = BucketMetadata(MemoryBucket())
    metadata.cas("count", None, FIRST)
    return metadata


def others_of(inner) -> tuple[list[Step], Callable[[], None]]:
    tries: list[Step] = []

    def step() -> None:
        tries.extend(step_up(inner, "count", f"other{len(tries)}", steps=1))

    return tries, step


def last_of(inner) -> bytes:
    return inner.get("count").data


def test_a_put_that_was_unclear_and_put_over_since_is_no_fault(inner):
    others, step = others_of(inner)

    def late(honest):
        honest()
        step()
        raise UnclearError("no answer", path="count", retryable=True)

    bent = Bent(inner, 2, late)
    tries = step_up(bent, "count", "me", steps=3)
    assert [each.is_known_done for each in tries] == [True, False, True, True]
    assert bent.calls == 5  # The unclear one is asked for once more.
    assert last_of(inner).startswith(b"5 ")
    check_steps(FIRST, last_of(inner), tries + others)


def test_a_put_that_is_done_while_it_is_asked_for_again_is_known(inner):
    def unclear(honest):
        honest()
        raise UnclearError("no answer", path="count", retryable=True)

    tries = step_up(Bent(inner, 2, unclear), "count", "me", steps=3)
    assert [each.is_known_done for each in tries] == [True] * 3
    check_steps(FIRST, last_of(inner), tries)


def test_one_who_was_first_is_a_conflict(inner):
    others, step = others_of(inner)

    def beaten(honest):
        step()
        return honest()

    tries = step_up(Bent(inner, 2, beaten), "count", "me", steps=3)
    assert [each.is_known_done for each in tries] == [True, False, True, True]
    check_steps(FIRST, last_of(inner), tries + others)


def test_a_place_that_keeps_nothing_is_found(inner):
    tries = step_up(Bent(inner, 2, lambda honest: "1"), "count", "me", steps=3)
    with pytest.raises(AssertionError, match=r"not on the way to b'2 me\.2': .*2 me\.1"):
        check_steps(FIRST, last_of(inner), tries)


def test_a_place_that_has_two_winners_is_found(inner):
    others, step = others_of(inner)

    def blind(honest):
        step()
        inner.delete("count")
        return inner.cas("count", None, b"2 me.1")

    tries = step_up(Bent(inner, 2, blind), "count", "me", steps=3)
    with pytest.raises(AssertionError, match="other0"):
        check_steps(FIRST, last_of(inner), tries + others)


def test_a_place_that_makes_states_up_is_found(inner):
    def makes_up(honest):
        kept = inner.get("count")
        inner.cas("count", kept.revision, b"2 x")
        raise Conflict("not that one", path="count")

    tries = step_up(Bent(inner, 2, makes_up), "count", "me", steps=3)
    with pytest.raises(AssertionError, match="b'2 x' was put by nobody"):
        check_steps(FIRST, last_of(inner), tries)
