"""What holds of memory alone; what holds of every store is in the conformance kit."""

from __future__ import annotations

import pytest

from quiver.errors import InputError
from quiver.ship.objects import MemoryBucket, own_key, root_key
from quiver.testing import ManualClock


def test_what_was_put_is_told_by_the_clock_that_was_passed():
    clock = ManualClock(wall_ns=5_000_000_000)
    bucket = MemoryBucket(clock=clock)
    bucket.put("a", b"1")
    clock.step(2.0)
    bucket.put("b", b"22")
    found = {(seen.key, seen.size, seen.changed_ms) for seen in bucket.list("")}
    assert found == {("a", 1, 5000), ("b", 2, 7000)}


def test_two_buckets_look_at_one_store_from_two_places():
    root = MemoryBucket()
    below = root.at("ingest/")
    below.put("manifest", b"m")
    root.put("elsewhere/x", b"x")
    assert root.get("ingest/manifest").data == b"m"
    assert root_key(below, "manifest") == "ingest/manifest"
    assert own_key(below, "ingest/manifest") == "manifest"
    assert own_key(below, "elsewhere/x") == "/elsewhere/x"
    assert root_key(below, "/elsewhere/x") == "elsewhere/x"
    assert below.get(own_key(below, "elsewhere/x")).data == b"x"
    assert [seen.key for seen in below.list("")] == ["manifest"]


@pytest.mark.parametrize("path", ["a/../b", "a//b", ".", "a\0b", "\ud800", "x" * 1025])
def test_a_bad_path_is_refused(path):
    with pytest.raises(InputError):
        MemoryBucket(path)
