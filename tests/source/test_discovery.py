"""Splits are listed again and again; who has one keeps it."""

from __future__ import annotations

import pytest
from toy_source import ToySource

from quiver.errors import InputError, SourceError
from quiver.source import Discovery, Split, assign
from quiver.testing import ManualClock


def names(discovery: Discovery) -> list[str]:
    return [split.id for split in discovery.splits]


def test_a_first_listing_that_fails_refuses_the_source() -> None:
    source = ToySource({"a": []})
    source.listing = SourceError("not there")
    with pytest.raises(SourceError, match="not there"):
        Discovery(source, clock=ManualClock())


def test_it_lists_when_it_is_time_and_only_adds() -> None:
    source, clock = ToySource({"a": []}), ManualClock()
    discovery = Discovery(source, clock=clock, every="30s")
    source.feed("b", [1])
    clock.step(29)
    assert not discovery.tick()
    clock.step(1)
    assert discovery.tick()
    assert names(discovery) == ["a", "b"]
    del source.rows["a"]
    assert not discovery.tick(now=True)
    assert names(discovery) == ["a", "b"]
    assert discovery.missing == {"a"}
    source.rows.clear()
    assert not discovery.tick(now=True)
    assert names(discovery) == ["a", "b"]


def test_a_source_that_drops_splits_lets_them_go() -> None:
    source = ToySource({"a": [], "b": []})
    source.drops_splits = True
    discovery = Discovery(source, clock=ManualClock())
    del source.rows["a"]
    assert discovery.tick(now=True)
    assert names(discovery) == ["b"]
    source.rows.clear()
    assert discovery.tick(now=True)
    assert names(discovery) == []


def test_a_failed_listing_keeps_the_last_and_too_many_make_another_enumerator() -> None:
    source = ToySource({"a": []})
    discovery = Discovery(source, clock=ManualClock())
    source.listing = SourceError("not now")
    for _ in range(10):
        assert not discovery.tick(now=True)
        assert names(discovery) == ["a"]
        assert str(discovery.failure) == "not now"
    assert source.enumerators == 1
    discovery.tick(now=True)
    source.listing = None
    source.feed("b", [1])
    assert discovery.tick(now=True)
    assert source.enumerators == 2
    assert discovery.failure is None
    discovery.close()
    discovery.close()


def test_new_splits_go_to_who_has_the_fewest_and_none_ever_moves() -> None:
    splits = [Split(name) for name in "fedcba"]
    shares = assign(splits, {"two": ["a"], "one": []})
    assert {n: [s.id for s in share] for n, share in shares.items()} == {
        "one": ["b", "c", "e"],
        "two": ["a", "d", "f"],
    }
    again = assign(splits, {n: [s.id for s in share] for n, share in shares.items()})
    assert again == shares
    assert assign(splits[:1], {"one": ["a", "f"]}) == {"one": [Split("f")]}
    with pytest.raises(InputError, match="read twice"):
        assign(splits, {"one": ["a"], "two": ["a"]})
    with pytest.raises(InputError, match="nobody"):
        assign(splits, {})
