"""Metadata by way of nodes keep what every place of metadata has to keep."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from chain_wire_kit import CALM
from memory_peer import MemoryPeer

from quiver.chain.metadata import BucketMetadata, swap
from quiver.chain.wire import CarriedMetadata, RemotePeer, Server
from quiver.errors import ConfigError, InputError, RemoteError
from quiver.ship.objects import MemoryBucket, UnclearError
from quiver.testing.manual_clock import ManualClock
from quiver.testing.metadata_conformance import MetadataConformance


@pytest.fixture
def stack():
    with ExitStack() as stack:
        yield stack


def served(stack: ExitStack, metadata, name: str = "a") -> RemotePeer:
    server = stack.enter_context(
        Server(MemoryPeer(name), "127.0.0.1:0", options=CALM, metadata=metadata)
    )
    return RemotePeer(name, lambda: server.address, options=CALM)


class TestCarried(MetadataConformance):
    many = 50

    @pytest.fixture
    def opened(self, stack):
        bucket = MemoryBucket()

        def open_path(path: str = "") -> CarriedMetadata:
            peer = served(stack, BucketMetadata(bucket.at(path)))
            return CarriedMetadata([peer], f"quiver://{path}")

        return open_path


def nobody() -> RemotePeer:
    return RemotePeer("z", lambda: "127.0.0.1:1", options=CALM)


def test_r33_the_first_address_is_dead_and_the_second_one_answers(stack):
    below = BucketMetadata(MemoryBucket())
    metadata = CarriedMetadata([nobody(), served(stack, below)], "quiver://")
    revision = below.cas("x", None, b"1")
    assert metadata.get("x").data == b"1"
    assert metadata.keys("") == ["x"]
    assert metadata.cas("x", revision, b"2") != revision


def test_a_write_that_nobody_answers_is_unclear_and_a_swap_goes_to_the_next_node(stack):
    below = BucketMetadata(MemoryBucket())
    metadata = CarriedMetadata([nobody(), served(stack, below)], "quiver://")
    with pytest.raises(UnclearError):
        metadata.cas("x", None, b"1")
    metadata = CarriedMetadata([nobody(), served(stack, below, "b")], "quiver://")
    assert swap(metadata, "x", None, data=b"2", clock=ManualClock())
    assert below.get("x").data == b"2"


def test_nobody_to_ask_is_said(stack):
    with pytest.raises(ConfigError):
        CarriedMetadata([], "quiver://")
    with pytest.raises(RemoteError) as caught:
        CarriedMetadata([nobody(), nobody()], "quiver://").get("x")
    assert caught.value.retryable
    with pytest.raises(InputError, match="passes no metadata on"):
        CarriedMetadata([served(stack, None)], "quiver://").get("x")
