"""Each peer of the bench gives back what it was given, also to the next process that opens it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from peer_kit import APART, BUNDLES, apart, give_and_take

from bench.peers import given
from bench.peers.peers import MODULES, missing, modes
from bench.peers.raw import takes_direct
from bench.peers.runs import Side, check
from bench.wal.shapes import SLOTS

EVERYBODY = [(name, mode) for name in MODULES for mode in modes(name)]


@pytest.mark.parametrize("name, mode", EVERYBODY)
def test_a_peer_gives_back_what_it_was_given(name, mode, tmp_path: Path):
    if why := missing(name):
        pytest.skip(f"{name}: {why}")
    if name == "raw-tuned" and not takes_direct(tmp_path):
        pytest.skip("a file system without O_DIRECT")
    (apart if name in APART else give_and_take)(name, mode, tmp_path)


def test_a_bundle_that_is_missing_is_noticed():
    side = Side("lmdb", "each", 5)
    for count in (3, 4, 6):
        check(side, {"acked": 3, "appended": 6}, count)
    for count in (2, 7):
        with pytest.raises(AssertionError, match="came back"):
            check(side, {"acked": 3, "appended": 6}, count)


COMPARED = [given.in_order, given.in_any_order]


@pytest.mark.parametrize("compared", COMPARED)
def test_so_many_bundles_came_back(compared):
    assert compared(BUNDLES, []) == 0
    assert compared(BUNDLES, BUNDLES) == 3
    assert compared(BUNDLES, [*BUNDLES, *BUNDLES[:2]]) == 5
    by_slot = [{slot: bundle[slot]} for slot in SLOTS for bundle in BUNDLES]
    assert compared(BUNDLES, by_slot) == 3
    joined = [
        {slot: pa.Table.from_batches([b[slot] for b in BUNDLES]).unify_dictionaries()}
        for slot in SLOTS
    ]
    assert compared(BUNDLES, joined) == 3


@pytest.mark.parametrize("compared", COMPARED)
def test_a_bundle_that_is_not_the_one_that_was_given_is_noticed(compared):
    with pytest.raises(AssertionError, match="changed"):
        compared(BUNDLES, [BUNDLES[0], BUNDLES[0]])
    half = {**BUNDLES[1], SLOTS[0]: BUNDLES[1][SLOTS[0]].slice(0, 3)}
    with pytest.raises(AssertionError, match="in part"):
        compared(BUNDLES, [BUNDLES[0], half])
    with pytest.raises(AssertionError, match="in part"):
        compared(BUNDLES, [*BUNDLES[:2], {SLOTS[1]: BUNDLES[2][SLOTS[1]]}])


@pytest.mark.parametrize("compared", COMPARED)
@pytest.mark.parametrize(
    "slot, column", [(s, c) for s in SLOTS for c in BUNDLES[0][s].schema.names]
)
def test_one_value_that_changed_is_noticed(slot, column, compared):
    batch = BUNDLES[1][slot]
    place = batch.schema.get_field_index(column)
    values = batch.column(place)
    turned = pa.concat_arrays([values.slice(1), values.slice(0, 1)])
    if turned.equals(values):  # All are the same.
        turned = pa.concat_arrays(
            [BUNDLES[1][slot].column(place).slice(1), pa.nulls(1, values.type)]
        )
    wrong = batch.set_column(place, batch.schema.field(place), turned)
    with pytest.raises(AssertionError, match="changed"):
        compared(BUNDLES, [BUNDLES[0], {**BUNDLES[1], slot: wrong}, BUNDLES[2]])


def test_rows_in_another_order_are_noticed_where_order_is_kept():
    swapped = [BUNDLES[1], BUNDLES[0], BUNDLES[2]]
    assert given.in_any_order(BUNDLES, swapped) == 3
    with pytest.raises(AssertionError, match="changed"):
        given.in_order(BUNDLES, swapped)
