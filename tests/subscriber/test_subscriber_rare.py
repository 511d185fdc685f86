"""A lease that is no higher, and ranks of segments that are known already."""

from __future__ import annotations

from typing import NamedTuple

from quiver.subscriber import Registry
from quiver.subscriber.order import Ranked


def test_a_lease_that_is_no_higher_takes_nothing_back() -> None:
    registry = Registry()
    registry.register("spark")
    registry.add_segment(0, 2)
    member = registry.member("spark")
    member.raise_lease(5)
    assert registry.claim("spark", 0) is not None
    for lease in (5, 4):
        member.raise_lease(lease)
        assert (member.lease, len(member.claims)) == (5, 1)
    member.raise_lease(6)
    assert (member.lease, len(member.claims)) == (6, 0)


class Offers(NamedTuple):
    ready: list[int]
    revision: int

    def offered_in(self, segment_seq: int, low: int, stop: int) -> bool:
        return segment_seq in self.ready and low < stop

    def bundle_count(self, segment_seq: int) -> int:
        return 3


def test_ranks_of_a_segment_are_asked_for_once_however_often_it_is_offered() -> None:
    asked: list[int] = []

    def ranks(segment_seq: int) -> list[tuple[float, int, int]]:
        asked.append(segment_seq)
        return [(segment_seq, 0, 3)]

    order = Ranked(ranks)
    assert order(Offers([1], 0)) == (1, 0, 3)
    assert order(Offers([1, 2], 1)) == (2, 0, 3)
    assert order(Offers([1], 2)) == (1, 0, 3)
    assert asked == [1, 2]
