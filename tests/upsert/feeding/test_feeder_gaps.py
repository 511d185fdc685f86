"""What a subscriber acked and the collection has not: nothing is taken behind that unasked."""

from __future__ import annotations

import shutil

import pytest
from feeding_kit import Feeding, held, table

from quiver.errors import MissingError, SourceError
from quiver.ship.objects import FolderBucket, MemoryBucket


@pytest.fixture
def rig() -> Feeding:
    return Feeding()


def test_a_collection_that_was_deleted_is_not_begun_anew_in_the_middle(rig) -> None:
    rig.fill(2, 1)
    rig.feed()
    was, rig.bucket = held(rig.bucket), MemoryBucket("another", clock=rig.clock)
    for _ in range(2):
        with pytest.raises(SourceError, match="bundle 0 of segment 0 was acked") as caught:
            rig.feed()
        assert "acked=skip" in str(caught.value)
    rig.feed(name="anew")
    assert held(rig.bucket) == was


def test_a_collection_that_is_deleted_meanwhile_is_told_to_be(rig, tmp_path) -> None:
    rig.fill(3, 3)
    folder = tmp_path / "collection"
    with rig.subscribe() as subscriber:
        feeder = rig.feeder(subscriber, FolderBucket(str(folder)), rows=1)
        feeder._watch = lambda _: shutil.rmtree(folder)
        with pytest.raises(MissingError, match="was deleted while it was written") as caught:
            feeder.run()
        assert "a new subscriber" in str(caught.value)


def test_a_collection_that_went_back_is_told_before_its_places_pass_what_it_lacks(rig) -> None:
    rig.fill(3)
    rig.open_bundles("another")  # It keeps what is there.
    rig.feed()
    copy = MemoryBucket("copy", clock=rig.clock)
    for found in rig.bucket.list(""):
        copy.put(found.key, rig.bucket.get(found.key).data)
    rig.fill(2)
    rig.feed()
    rig.fill(1)
    rig.bucket = copy
    with pytest.raises(SourceError, match="bundle 0 of segment 1 was acked"):
        rig.feed()
    rig.feed(name="anew")
    rig.check()


def test_it_goes_on_behind_the_gap_where_that_is_wanted(rig) -> None:
    rig.fill(2)
    rig.feed()
    rig.bucket = MemoryBucket("another", clock=rig.clock)
    with rig.open() as store:
        store.append({"users": table([(70, 7)])})
        store.finalize()
    assert rig.feed(pass_acked=True).row_count == 1
    assert held(rig.bucket) == {70: 7}
    assert rig.feed().bundle_count == 0


def test_what_has_no_rows_in_the_slot_is_no_gap(rig) -> None:
    other = {"other": table([(1, 1)])}
    with rig.open() as store:
        for bundle in (other, {"users": table([])}, other):
            store.append(bundle)
        store.finalize()
    for name, slots in (("own", ["users"]), ("all", None)):
        for _ in range(2):
            with rig.subscribe(name, slots=slots) as subscriber:
                rig.feeder(subscriber).run()
    rig.fill(1)
    assert rig.feed(name="own").row_count == len(rig.bundles[0][0])
    rig.check()


def test_a_subscriber_of_the_store_itself_is_asked_as_well(rig) -> None:
    rig.fill(2)
    with rig.open() as store:
        subscriber = store.subscribe("own", slots=["users"])
        rig.feeder(subscriber).run()
        with pytest.raises(SourceError, match="was acked"):
            rig.feeder(subscriber, MemoryBucket("another", clock=rig.clock)).run()
        rig.feeder(subscriber).run()
    rig.check()
