"""Which batch is in already, which is the next, and which leaves a hole."""

from __future__ import annotations

import pytest

from quiver.errors import SourceError
from quiver.spark.upsert.recovery import BEFORE, Batch, advanced, decide
from quiver.upsert.persist import Source


def test_the_first_batch_of_the_first_query_is_applied_as_it_is() -> None:
    batch = decide({}, "spark", ("q", 0))
    assert batch == Batch("q", 0, is_first=True)
    assert advanced({}, "spark", batch, ends={"a": 3}) == {"spark": Source("q", 0, {"a": 3})}


def test_a_batch_that_comes_again_is_known_and_the_next_one_is_not() -> None:
    sources = {"spark": Source("q", 4, {"a": 3, "b": 1})}
    assert decide(sources, "spark", ("q", 4)).is_known
    assert decide(sources, "spark", ("q", 2)).is_known
    batch = decide(sources, "spark", ("q", 5))
    assert not batch.is_known
    assert batch.floors == {}  # Its number says enough: a row that comes late is not left out.
    after = advanced(sources, "spark", batch, ends={"a": 2, "c": 9})
    assert after == {"spark": Source("q", 5, {"a": 3, "b": 1, "c": 9})}


def test_a_query_that_lost_its_checkpoint_begins_behind_all_before_it_for_as_long_as_it_lives() -> (
    None
):
    sources = {"spark": Source("old", 4, {"a": 30, "b": 10})}
    first = decide(sources, "spark", ("new", 0))
    assert first.floors == {"a": 30, "b": 10}
    assert first.replaces == "old"
    sources |= advanced(sources, "spark", first, ends={"a": 7})
    assert sources["spark"] == Source("new", 0, {"a": 30, "b": 10})
    second = decide(sources, "spark", ("new", 1))
    assert second.floors == {"a": 30, "b": 10}
    sources |= advanced(sources, "spark", second, ends={"a": 33, "b": 2})
    assert sources["spark"].splits == {"a": 33, "b": 10}
    assert sources["spark" + BEFORE].splits == {"a": 30, "b": 10}
    third = decide(sources, "spark", ("newest", 0))
    assert third.floors == {"a": 33, "b": 10}
    sources |= advanced(sources, "spark", third, ends={})
    assert decide(sources, "spark", ("newest", 1)).floors == {"a": 33, "b": 10}


def test_sources_do_not_know_each_other() -> None:
    sources = {"one": Source("q", 4, {"a": 3})}
    assert decide(sources, "other", ("q", 0)).floors == {}


@pytest.mark.parametrize(
    ("sources", "batch", "message"),
    [
        ({}, ("q", 1), "query q is at batch 1, and the collection has nothing of it"),
        ({"spark": Source("q", 4)}, ("q", 6), "has its batches up to 4"),
        ({"spark": Source("p", 4)}, ("q", 3), "has what query p read since"),
        ({"spark": Source("", 4, {"a": 1})}, ("q", 3), "has what somebody else read since"),
    ],
)
def test_batches_that_are_missing_are_an_error(sources, batch, message) -> None:
    with pytest.raises(SourceError, match=message):
        decide(sources, "spark", batch)
