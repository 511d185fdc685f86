"""Which blocks move from fuller nodes to emptier ones: it comes to rest, and costs no copy."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.chain.placing import BEGIN, REST, Move, Node, Placed, balance, skew
from quiver.chain.placing.choose import FILL_MAX, host_of

TOTAL = 1_000


class Cluster:
    """Nodes and blocks as they are after each move."""

    def __init__(self, totals, blocks, *, hosts=None, foreign=None):
        self.totals = totals
        self.hosts = hosts or {}
        self.foreign = foreign or {}
        self.blocks = {block.number: block for block in blocks}
        self.is_moving = False

    def nodes(self):
        used = {name: self.foreign.get(name, 0) for name in self.totals}
        for block in self.blocks.values():
            for location in block.locations:
                used[location] += block.size
        return [
            Node(name, total - used[name], total, self.hosts.get(name, ""))
            for name, total in self.totals.items()
        ]

    def squares(self):
        return sum((n.total_bytes - n.free_bytes) ** 2 / n.total_bytes for n in self.nodes())

    def do(self, move):
        """Move, and check that the move was one that may be."""
        block = self.blocks[move.number]
        nodes = {node.name: node for node in self.nodes()}
        assert move.source in block.locations
        assert move.target not in block.locations
        others = [each for each in block.locations if each != move.source]
        assert host_of(nodes[move.target]) not in {host_of(nodes[each]) for each in others}
        before = self.squares()
        locations = (move.target, *others)
        assert len(set(locations)) == len(block.locations)
        self.blocks[move.number] = block._replace(locations=locations)
        target = next(node for node in self.nodes() if node.name == move.target)
        assert target.total_bytes - target.free_bytes < FILL_MAX * target.total_bytes
        assert self.squares() < before

    def run(self, *, moves_max=3, avoid=()):
        """Do pass after pass until it rests; gives the moves."""
        moves = []
        for _ in range(2_000):
            found = balance(
                self.nodes(),
                self.blocks.values(),
                moves_max=moves_max,
                is_moving=self.is_moving,
                avoid=avoid,
            )
            assert len(found) <= moves_max
            self.is_moving = bool(found)
            if not found:
                return moves
            for move in found:
                self.do(move)
            moves += found
        raise AssertionError("it does not come to rest")


def placed(number, locations, size=50, **given):
    return Placed("p", number, number, size, tuple(locations), **given)


def test_a_node_that_joins_empty_gets_its_part_and_then_it_rests():
    blocks = [placed(n, pair) for n, pair in zip(range(24), product("ab", "cd"), strict=False)]
    blocks += [placed(24 + n, pair) for n, pair in enumerate(["ad", "bc"] * 8)]
    cluster = Cluster(dict.fromkeys("abcde", TOTAL), blocks)
    moves = cluster.run()
    assert {move.target for move in moves} == {"e"}
    assert skew(cluster.nodes()) <= REST
    cluster.is_moving = True
    assert cluster.run() == []  # Also when it is asked for.


def test_it_begins_far_apart_and_ends_near():
    """Hysteresis: what is between the two goes on, and does not begin."""
    names = dict.fromkeys("ab", TOTAL)
    few = Cluster(names, [placed(n, "a") for n in range(int(BEGIN * TOTAL / 50))])
    assert few.run() == []
    few.is_moving = True
    assert len(few.run()) == 2
    many = Cluster(names, [placed(n, "a", 10) for n in range(int(BEGIN * TOTAL / 10) + 1)])
    assert many.run(moves_max=1)
    assert skew(many.nodes()) <= REST


def test_the_newest_goes_first():
    cluster = Cluster(dict.fromkeys("ab", TOTAL), [placed(n, "a") for n in range(10)])
    assert [move.number for move in cluster.run(moves_max=1)][:3] == [9, 8, 7]


def test_nodes_of_other_sizes_are_as_full_and_not_as_laden():
    blocks = [placed(n, "a", 10) for n in range(60)]
    cluster = Cluster({"a": TOTAL, "b": 10 * TOTAL}, blocks)
    cluster.run()
    held = [block.locations for block in cluster.blocks.values()]
    assert held.count(("b",)) > 4 * held.count(("a",))
    assert skew(cluster.nodes()) <= REST


def test_no_two_copies_come_to_one_host():
    blocks = [placed(n, "ab") for n in range(12)]
    hosts = {"a": "x", "b": "y", "c": "x"}
    cluster = Cluster(dict.fromkeys("abc", TOTAL), blocks, hosts=hosts)
    moves = cluster.run()
    assert moves
    assert {(move.source, move.target) for move in moves} == {("a", "c")}


def test_a_node_at_its_limit_takes_nothing_and_gives():
    blocks = [placed(n, "a") for n in range(19)]
    cluster = Cluster(dict.fromkeys("ab", TOTAL), blocks, foreign={"b": 700})
    moves = cluster.run()
    assert {(move.source, move.target) for move in moves} == {("a", "b")}
    full = Cluster({"a": TOTAL, "b": TOTAL, "c": 55}, blocks, foreign={"b": 860})
    assert full.run() == []  # With one block c would be too full.


def test_who_does_not_reach_each_other_is_left_alone():
    blocks = [placed(n, "ab") for n in range(12)]
    names = dict.fromkeys("abc", TOTAL)
    assert Cluster(names, blocks).run(avoid={("a", "c")})  # From b, whoever it is listed for.
    assert Cluster(names, blocks).run(avoid={("a", "c"), ("c", "b")}) == []


def test_a_copy_that_is_about_to_be_deleted_does_not_come_back():
    blocks = [placed(n, "a", unlisted=("b",)) for n in range(10)]
    assert Cluster(dict.fromkeys("ab", TOTAL), blocks).run() == []


def test_blocks_with_a_location_that_nobody_knows_stay():
    blocks = [placed(n, "az") for n in range(10)]
    nodes = [Node("a", 500, TOTAL), Node("b", TOTAL, TOTAL), Node("none", 0, 0)]
    assert balance(nodes, blocks, moves_max=3) == []
    assert balance([], [], moves_max=3) == []
    assert skew([]) == 0.0


def test_one_move_of_a_plan_takes_the_others_into_account():
    blocks = [placed(n, "a", 100) for n in range(5)]
    found = balance(Cluster(dict.fromkeys("ab", TOTAL), blocks).nodes(), blocks, moves_max=100)
    assert found == [Move("p", 4, "a", "b", 100), Move("p", 3, "a", "b", 100)]


PAIRS = list(combinations("abc", 2))


@pytest.mark.parametrize("sizes", [(100, 100, 100, 100), (40, 90, 130, 200)], ids=str)
def test_each_way_to_place_four_blocks_comes_to_rest(sizes):
    """All of them: three nodes, two copies."""
    for ways in product(PAIRS, repeat=4):
        blocks = [placed(n, pair, sizes[n]) for n, pair in enumerate(ways)]
        cluster = Cluster(dict.fromkeys("abc", TOTAL), blocks)
        cluster.is_moving = True
        cluster.run(moves_max=2)


@given(st.data())
def test_it_comes_to_rest_and_costs_no_copy(data):
    """Each move is checked where it is done: distinct nodes and hosts, limits, nearer to rest."""
    count = data.draw(st.integers(1, 6))
    names = "abcdef"[:count]
    totals = {name: data.draw(st.integers(500, 4_000)) for name in names}
    hosts = {name: data.draw(st.sampled_from(["", "x", "y"])) for name in names}
    foreign = {name: data.draw(st.integers(0, totals[name])) for name in names}
    blocks = [
        placed(
            number,
            data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)),
            data.draw(st.integers(1, 200)),
        )
        for number in range(data.draw(st.integers(0, 25)))
    ]
    avoid = data.draw(st.sets(st.tuples(st.sampled_from(names), st.sampled_from(names))))
    cluster = Cluster(totals, blocks, hosts=hosts, foreign=foreign)
    cluster.is_moving = data.draw(st.booleans())
    cluster.run(moves_max=data.draw(st.integers(1, 5)), avoid=avoid)
    before = cluster.blocks
    assert cluster.run(avoid=avoid) == []
    assert cluster.blocks == before
