"""The same collection in a real object store."""

from __future__ import annotations

import pickle

import pytest
from persist_kit import Rig

from quiver.errors import FencedError
from quiver.ship.objects import open_bucket
from quiver.upsert.persist import Collection, close_all


def test_a_collection_in_an_object_store_is_what_a_dictionary_is(seaweed) -> None:
    store = open_bucket(f"{seaweed.url}/a/collection", options=seaweed.options)
    rig = Rig(store)
    for number in range(4):
        rig.apply(
            {key: {"text": "x" * key, "n": number} for key in range(number, 40, number + 1)}
            | {number * 7: None},
        )
    rig.fold(1, 2)
    rig.merge(2, 3)
    close_all()
    rig.check_all()
    travelled = pickle.loads(pickle.dumps(store))
    newer = Collection.open(travelled).writer()
    with pytest.raises(FencedError):
        rig.writer.append([], rig.snapshot.upper)
    assert newer.append([], 5).snapshot.upper == 6
