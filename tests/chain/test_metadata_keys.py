"""Keys of metadata come from any client of a node; none leads out of their place."""

from __future__ import annotations

import pytest

from quiver.chain.metadata import BucketMetadata, open_metadata
from quiver.chain.wire import RemotePeer
from quiver.errors import InputError, RemoteError
from quiver.ship.objects import MemoryBucket

BAD = ["/etc/passwd", "/", "../x", "..", "a/../../x", "./x", "a\0b"]


@pytest.mark.parametrize("key", BAD)
@pytest.mark.parametrize("place", ["folder", "memory"])
def test_no_key_leads_out_of_its_place(tmp_path, key, place):
    made = open_metadata(str(tmp_path / "meta"))
    metadata = made if place == "folder" else BucketMetadata(MemoryBucket())
    metadata.cas("core_0/record", None, b"1")
    for act in (
        lambda: metadata.get(key),
        lambda: metadata.cas(key, None, b"x"),
        lambda: metadata.keys(key),
        lambda: metadata.delete(key),
    ):
        with pytest.raises(InputError):
            act()
    assert metadata.keys("") == metadata.keys("core_0/") == ["core_0/record"]


@pytest.mark.parametrize("address", ["foo bar", ":::", "h:99999999", "[::"])
def test_an_address_that_is_none_is_an_error_of_that_node(address):
    with pytest.raises(RemoteError, match=r"^n (says|cannot)"):
        RemotePeer("n", lambda: address).status()
