"""Which nodes get a block, and which copies are made first."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.chain.placing import START_DELAY_NS, Chosen, Held, Node, Want, choose, repairs
from quiver.chain.record import Block

GB = 1 << 30
S = 1_000_000_000


def nodes(count, *, free=100 * GB, total=100 * GB, hosts=None):
    return [
        Node(f"n{number}", free, total, f"h{number % hosts}" if hosts else "")
        for number in range(count)
    ]


@pytest.mark.parametrize(("count", "rf"), [(4, 2), (5, 3), (10, 2)])
def test_a_thousand_blocks_are_spread_evenly(count, rf):
    """R34: on equal nodes the fullest has at most 1.2 times what the emptiest has."""
    rng = random.Random(count)
    these = {node.name: node for node in nodes(count, free=1000 * GB, total=1000 * GB)}
    held = dict.fromkeys(these, 0)
    for _ in range(1000):
        chosen = choose(list(these.values()), rf, rng)
        assert len(set(chosen.locations)) == rf
        for name in chosen.locations:
            held[name] += 1
            these[name] = replace(these[name], free_bytes=these[name].free_bytes - GB // 10)
    assert max(held.values()) <= 1.2 * min(held.values())


def test_a_full_node_gets_none():
    """R34: over 85 percent."""
    full = Node("full", 15 * GB, 100 * GB)
    almost = Node("almost", 16 * GB, 100 * GB)
    for seed in range(50):
        chosen = choose([full, almost], 2, random.Random(seed))
        assert chosen == Chosen(("almost",), is_under_replicated=True)


def test_with_too_few_nodes_it_is_flagged_and_a_node_that_joins_fills_it_up():
    """R31: RF 3 on one node, then on three."""
    rng = random.Random(1)
    one = choose(nodes(1), 3, rng)
    assert one == Chosen(("n0",), is_under_replicated=True)
    two = choose(nodes(2), 3, rng, kept=one.locations)
    assert two == Chosen(("n1", "n0"), is_under_replicated=True)
    three = choose(nodes(3), 3, rng, kept=two.locations)
    assert three == Chosen(("n2", "n1", "n0"), is_under_replicated=False)
    assert choose(nodes(3), 3, rng, kept=three.locations) == three
    assert choose([], 2, rng) == Chosen((), is_under_replicated=True)


def test_two_nodes_of_a_host_do_not_get_one_block():
    """R28: copies are where they do not fail together."""
    for seed in range(50):
        chosen = choose(nodes(6, hosts=3), 3, random.Random(seed))
        assert {int(name[1:]) % 3 for name in chosen.locations} == {0, 1, 2}
    chosen = choose(nodes(6, hosts=2), 3, random.Random(0))
    assert (len(chosen.locations), chosen.is_under_replicated) == (2, True)
    # A host and a node of its own may have the same name.
    mixed = [Node("x", GB, GB), Node("y", GB, GB, "x")]
    assert len(choose(mixed, 2, random.Random(0)).locations) == 2


@given(
    st.integers(0, 8),
    st.integers(1, 4),
    st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=12),
    st.integers(0, 1000),
)
def test_pairs_that_failed_are_no_neighbours(count, rf, pairs, seed):
    """R28: and no node is listed twice."""
    avoid = {(f"n{a}", f"n{b}") for a, b in pairs}
    chosen = choose(nodes(count), rf, random.Random(seed), avoid=avoid)
    names = chosen.locations
    assert len(set(names)) == len(names) <= min(count, rf)
    assert chosen.is_under_replicated == (len(names) < rf)
    for a, b in pairwise(names):
        assert (a, b) not in avoid
        assert (b, a) not in avoid
    if not avoid:
        assert len(names) == min(count, rf)


def test_an_order_is_found_in_which_a_pair_that_failed_is_apart():
    for seed in range(50):
        chosen = choose(nodes(3), 3, random.Random(seed), avoid={("n0", "n2")})
        assert chosen.locations in (("n0", "n1", "n2"), ("n2", "n1", "n0"))


def block(number, locations, *, rf=3, end=0):
    return Block(number, 1, end, end, 100, number, rf, tuple(locations))


def test_new_writes_come_first_then_live_reads_then_history():
    """R39: what is open is no repair; one copy left, then live and new, then old."""
    held = [
        Held("idle", block(1, "abc", end=10), is_live=False),
        Held("idle", block(2, "abc", end=20), is_live=False),
        Held("busy", block(7, "abd", end=5), is_live=True),
        Held("busy", block(8, "abe", end=6), is_live=True),
        Held("idle", block(0, "acf", end=1), is_live=False),
        Held("busy", block(6, "acg", end=4), is_live=True),
        Held("busy", block(9, "def", end=7), is_live=True),
    ]
    gone = {"a": 0, "c": 0}
    order = [(one.partition, one.number, one.want) for one in repairs(held, gone, now_ns=60 * S)]
    assert order == [
        ("busy", 6, Want.LAST_COPY),
        ("idle", 2, Want.LAST_COPY),
        ("idle", 1, Want.LAST_COPY),
        ("idle", 0, Want.LAST_COPY),
        ("busy", 8, Want.LIVE),
        ("busy", 7, Want.LIVE),
    ]
    everything = repairs(held, {"a": 0}, now_ns=60 * S)
    assert [one.want for one in everything] == [Want.LIVE] * 3 + [Want.HISTORY] * 3
    assert [one.number for one in everything] == [8, 7, 6, 2, 1, 0]


def test_a_node_that_may_come_back_is_waited_for_unless_one_copy_is_left():
    held = [
        Held("p", block(0, "abc"), is_live=False),
        Held("p", block(1, "ab", rf=2), is_live=False),
        Held("p", block(2, "ab", rf=4), is_live=False),
    ]
    early = repairs(held, {"a": 100 * S}, now_ns=100 * S + START_DELAY_NS - 1)
    assert [(one.number, one.want) for one in early] == [(1, Want.LAST_COPY), (2, Want.LAST_COPY)]
    late = repairs(held, {"a": 100 * S}, now_ns=100 * S + START_DELAY_NS)
    assert {one.number for one in late} == {0, 1, 2}
    assert {one.number: one.missing for one in late} == {0: 1, 1: 1, 2: 3}
    assert late[-1].present == ("b", "c")
    # What was never there has nobody to wait for.
    few = [Held("p", block(3, "abc", rf=4), is_live=False)]
    assert [one.missing for one in repairs(few, {}, now_ns=0)] == [1]
    assert [one.missing for one in repairs(few, {"a": 0}, now_ns=0)] == [2]


def test_what_nobody_has_cannot_be_copied_and_what_all_have_need_not():
    held = [Held("p", block(0, "ab"), is_live=True), Held("p", block(1, "cde"), is_live=True)]
    assert repairs(held, {"a": 0, "b": 0}, now_ns=60 * S) == []
