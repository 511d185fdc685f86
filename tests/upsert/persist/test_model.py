"""A collection against a dictionary, whatever is folded and merged in between."""

from __future__ import annotations

import random

import pytest
from persist_kit import Rig, error

from quiver.ship.objects import FolderBucket, MemoryBucket


def value(lot: random.Random) -> object:
    if lot.random() < 0.1:
        return error(lot.choice(("bad", "worse")))
    return {"text": lot.choice(("a", "bb", "", None)), "n": lot.randrange(9)}


@pytest.mark.parametrize("seed", range(6))
def test_it_is_what_a_dictionary_is(seed, tmp_path):
    lot = random.Random(seed)
    rig = Rig(FolderBucket(str(tmp_path)) if seed % 2 else MemoryBucket())
    for _ in range(12):
        keys = lot.sample(range(60), lot.randrange(30))
        rig.apply({key: value(lot) if lot.random() < 0.8 else None for key in keys})
        if lot.random() < 0.5:
            rig.fold(lot.randrange(4), lot.randrange(rig.snapshot.upper))
        if lot.random() < 0.5:
            rig.merge(lot.randrange(4), lot.randrange(2, 5))
    rig.check(lot)


def test_a_new_collection_is_empty_as_of_epoch_0(tmp_path):
    rig = Rig(FolderBucket(str(tmp_path)))
    snapshot = rig.snapshot
    assert (snapshot.since, snapshot.upper, snapshot.latest) == (0, 1, 0)
    assert rig.state() == rig.state(0) == {}
    assert rig.look([1, 2]) == {}
