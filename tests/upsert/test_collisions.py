"""Keys that share a hash: told apart by their bytes, however many they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from colliding import colliding
from upsert_model import PLAN, Command, Memory, Model, definition, table

from quiver.upsert.operator import Upsert
from quiver.upsert.rows import group, key_bytes, prepare, reduce


def struct_of(keys: list[bytes]) -> Any:
    return pa.StructArray.from_arrays([pa.array(keys, pa.binary())], names=["k"])


def test_the_kit_makes_keys_of_one_hash() -> None:
    keys = colliding(500)
    assert len(set(keys)) == 500
    made = [Command(key, "v", 0) for key in keys]
    found = prepare(table(made, pa.binary()), PLAN)
    assert len(set(found.hashes.tolist())) == 1


@pytest.mark.parametrize("count", [2, 3, 2_000])
def test_of_colliding_keys_each_has_its_own_command(count: int) -> None:
    keys = colliding(count)
    rng = np.random.default_rng(count)
    order = rng.permutation(np.repeat(np.arange(count), 3))
    made = [Command(keys[i], f"v{n}", 0, n) for n, i in enumerate(order)]
    alone = [Command(b"alone%d" % n, "x", 0) for n in range(5)]
    found = reduce(prepare(table([*made, *alone], pa.binary()), PLAN))
    last = {keys[i]: f"v{n}" for n, i in enumerate(order)} | {c.key: "x" for c in alone}
    assert len(found) == len(last)
    rows = zip(found.keys.to_pylist(), found.values.to_pylist(), strict=True)
    assert {key["k"]: value["v"] for key, value in rows} == last
    data = key_bytes(found.keys).to_pylist()
    pairs = list(zip(found.hashes.tolist(), data, strict=True))
    assert pairs == sorted(pairs)


def test_groups_are_those_of_a_dictionary() -> None:
    rng = np.random.default_rng(0)
    some = colliding(40)
    for size in (0, 1, 2, 7, 300):
        keys = [some[i] if i < 40 else b"k%d" % i for i in rng.integers(0, 80, size)]
        numbers = np.array([0 if key in some else int(key[1:]) % 5 for key in keys], np.uint64)
        found = group(numbers, struct_of(keys))
        assert sorted(found.places.tolist()) == list(range(size))
        ends = np.append(found.starts, size)[1:]
        sets = [
            {keys[place] for place in found.places[start:end]}
            for start, end in zip(found.starts, ends, strict=True)
        ]
        assert all(len(one) == 1 for one in sets)
        assert len(sets) == len(set(keys))
        assert found.sizes.tolist() == [keys.count(next(iter(one))) for one in sets]


def test_colliding_keys_live_and_die_apart() -> None:
    keys = colliding(30)
    kind = definition(pa.binary())
    model, operator, collection = Model(), Upsert(kind, 0, window_keys=7), Memory(kind)
    rng = np.random.default_rng(9)
    for at in range(6):
        made = [
            Command(keys[k], None if v == 0 else f"v{v}", at, n)
            for n, (k, v) in enumerate(rng.integers(0, (30, 4), (40, 2)))
        ]
        for command in made:
            model.push(command)
        operator.push(prepare(table(made, pa.binary()), PLAN, kind), at)
        step = operator.step(at + 1, collection)
        collection.append(at, step.diffs)
        assert collection.state() == model.state(at)


def test_many_colliding_keys_cost_no_more_than_sorting_them() -> None:
    """Pairs of 20,000 keys would be 400 million."""
    keys = colliding(20_000)
    found = prepare(table([Command(key, "v", 0) for key in keys * 2], pa.binary()), PLAN)
    assert len(reduce(found)) == 20_000
