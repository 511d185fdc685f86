"""A collection that goes away under its writer: that is told, and none is begun by itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from ends_kit import FaultyBucket
from persist_kit import DEFINITION, Rig

from quiver.errors import MissingError
from quiver.ship.objects import FolderBucket, MemoryBucket, UnclearError, open_bucket
from quiver.upsert.persist import MANIFEST_KEY, Collection
from quiver.upsert.tending import tend


def value(n: int) -> dict[str, object]:
    return {"text": str(n), "n": n}


def _acts(rig: Rig) -> dict[str, Callable[[], object]]:
    refs = rig.write({1: value(2)})
    return {
        "snapshot": rig.writer.snapshot,
        "append": lambda: rig.writer.append(refs, 2),
        "change": lambda: rig.writer.change(lambda now: now.manifest),
        "give up": lambda: rig.writer.give_up(["runs/x.arrow"]),
        "tend": lambda: tend(rig.writer, clock=rig.clock),
    }


ACTS = ["snapshot", "append", "change", "give up", "tend"]


@pytest.fixture(params=["memory", "folder"])
def store(request, tmp_path):
    return MemoryBucket() if request.param == "memory" else FolderBucket(str(tmp_path / "c"))


def _told(rig: Rig, act: Callable[[], object], match: str) -> None:
    before = {each.key: each.size for each in rig.store.list("")}
    with pytest.raises(MissingError, match=match) as told:
        act()
    assert not isinstance(told.value, UnclearError)
    assert told.value.hint
    after = {each.key: each.size for each in rig.store.list("") if each.key != "tending"}
    assert after == {key: size for key, size in before.items() if key != "tending"}


@pytest.mark.parametrize("act", ACTS)
def test_a_manifest_that_was_deleted_is_missed_at_once(store, act) -> None:
    rig = Rig(store)
    rig.apply({1: value(1)})
    run = _acts(rig)[act]
    store.delete([MANIFEST_KEY])
    _told(rig, run, "there is no collection in")
    _told(rig, run, "there is no collection in")  # Nor is it forgotten that there was one.


@pytest.mark.parametrize("act", ACTS)
def test_a_collection_made_anew_is_not_taken_for_the_one_that_was_written(store, act) -> None:
    """Its first writer has the number that ours has, and its epochs may be where ours are."""
    rig = Rig(store)
    rig.apply({1: value(1)})
    run = _acts(rig)[act]
    store.delete([MANIFEST_KEY])
    other = Collection.open(store, DEFINITION, create=True, clock=rig.clock).writer()
    assert other.fence == rig.writer.fence
    other.append([], 1)
    _told(rig, run, "was deleted, and another one made in its place")
    assert other.snapshot().upper == 2


def test_who_does_not_know_whether_his_append_was_in_says_that() -> None:
    store = FaultyBucket(MemoryBucket())
    rig = Rig(store)
    refs = rig.write({1: value(1)})

    def lose(act: str, key: str) -> None:
        if act == "put_if":
            store.inner.delete([MANIFEST_KEY])
            raise UnclearError("no answer", path=key, retryable=True)

    store.after = lose
    with pytest.raises(UnclearError, match="nobody knows"):
        rig.writer.append(refs, 1)


def test_a_manifest_deleted_in_an_object_store_is_missed(seaweed) -> None:
    store = open_bucket(f"{seaweed.url}/deleted/collection", options=seaweed.options)
    rig = Rig(store)
    rig.apply({1: value(1)})
    refs = rig.write({1: value(2)})
    store.delete([MANIFEST_KEY])
    with pytest.raises(MissingError, match="there is no collection in"):
        rig.writer.append(refs, 2)
    assert MANIFEST_KEY not in [each.key for each in store.list("")]
