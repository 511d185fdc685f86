"""A store that does not keep what it must keep is refused, by the name of its fault."""

from __future__ import annotations

import pytest
from careless_store import CarelessStore
from seaweed import options_for

from quiver.errors import RemoteError
from quiver.ship.objects import (
    Conflict,
    FolderBucket,
    MemoryBucket,
    UnclearError,
    open_bucket,
    probe,
)

pytest.importorskip("obstore")


def opened(store, **options):
    return open_bucket("s3://bucket/queue", options={**options_for(store.endpoint), **options})


def test_a_store_that_keeps_all_of_it_is_taken_and_left_as_it_was():
    with CarelessStore() as store:
        probe(opened(store))
        assert store.objects == {}


def test_where_numbers_of_puts_are_compared_they_travel_in_the_tag():
    """Google's way, on a stub: equal bytes have one e_tag, and yet an old tag is refused."""
    with CarelessStore() as store:
        given = {"base_url": store.endpoint, "allow_http": True, "token": "stub"}
        bucket = open_bucket("gs://bucket/queue", options={**given, "max_retries": 0})
        probe(bucket)
        assert store.objects == {}
        first = bucket.put_if("x", b"1", None)
        second = bucket.put("x", b"1")
        with pytest.raises(Conflict):
            bucket.put_if("x", b"2", first)
        bucket.put_if("x", b"2", second)


@pytest.mark.parametrize(
    "fault, said",
    [
        ("create", "it puts over an object that is there"),
        ("update", "it replaces an object that is not the one that the tag names"),
        ("refuse", "it refuses to replace an object that is as its tag says"),
        ("make", "it makes an object where it should replace one"),
        ("stale", "a read does not give what was put last"),
        ("unchanged", "it says that an object did not change, but it did"),
        ("list", "it does not list what is in it"),
        ("untagged", "ETag Header missing"),
        ("keep", "it does not delete"),
    ],
)
def test_a_store_with_a_fault_is_refused_by_its_name(fault, said):
    with CarelessStore(fault) as store:
        with pytest.raises(RemoteError, match=said) as refused:
            probe(opened(store))
        assert "s3://bucket/queue" in str(refused.value)
        assert not refused.value.retryable
        assert not store.objects or fault == "keep"


def test_a_store_that_gives_no_answer_is_not_called_unfit():
    with CarelessStore() as store:
        bucket = opened(store, max_retries=0)
    with pytest.raises(UnclearError):
        probe(bucket)


def test_what_is_known_to_be_right_is_not_tried(tmp_path):
    folder = FolderBucket(str(tmp_path / "queue"))
    for bucket in (MemoryBucket(), folder):
        probe(bucket, name=lambda: pytest.fail("it was tried"))
    assert not (tmp_path / "queue").exists()
