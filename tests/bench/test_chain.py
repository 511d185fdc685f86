"""What ``make bench-chain`` measures with: links that are cut, its picture, its partition."""

from __future__ import annotations

import os
import socket
import threading

import pytest

from bench.chain.links import Links
from bench.chain.metadata import _filled, _roll, _seeks
from bench.chain.plots import draw
from quiver.chain import Partition
from quiver.chain.metadata import open_metadata
from quiver.clock import SystemClock

SECONDS = 60.0


class Echo:
    """Says what it hears, until it is closed."""

    def __init__(self):
        self.server = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def address(self):
        return f"127.0.0.1:{self.server.getsockname()[1]}"

    def accept(self):
        try:
            while True:
                threading.Thread(
                    target=self.answer, args=self.server.accept()[:1], daemon=True
                ).start()
        except OSError:
            return

    def answer(self, taken):
        with taken:
            while data := taken.recv(100):
                taken.sendall(data)


@pytest.fixture
def links():
    with Links(["a", "b"]) as made:
        yield made


@pytest.fixture
def echo():
    made = Echo()
    yield made
    made.server.close()


def called(links, name):
    host, port = links.address(name).split(":")
    return socket.create_connection((host, int(port)), SECONDS)


def says(caller, data):
    caller.sendall(data)
    return caller.recv(100)


def is_silent(caller, data):
    """Whether nothing comes back for a moment."""
    caller.sendall(data)
    caller.settimeout(0.05)
    with pytest.raises(TimeoutError):
        caller.recv(100)
    caller.settimeout(SECONDS)
    return True


def test_what_was_said_over_a_cut_link_comes_when_it_is_healed(links, echo):
    links.lead("a", echo.address, pid=0)
    with called(links, "a") as caller:
        assert says(caller, b"one") == b"one"
        links.cut("a")
        assert is_silent(caller, b"two")
        links.heal()
        assert caller.recv(100) == b"two"


def test_two_are_cut_off_from_each_other_and_not_from_others(links, echo):
    links.lead("a", echo.address, pid=0)
    links.lead("b", echo.address, pid=os.getpid())  # Whoever calls from here is b.
    links.cut("a", "b")
    with called(links, "a") as from_b, called(links, "b") as to_b:
        assert is_silent(from_b, b"one")
        assert says(to_b, b"two") == b"two"
        links.heal()
        assert from_b.recv(100) == b"one"


def test_a_link_that_leads_nowhere_sends_away(links):
    with called(links, "a") as caller:
        assert caller.recv(1) == b""


def test_seeks_find_the_blocks_of_the_partition_that_is_made(tmp_path):
    place = open_metadata(str(tmp_path))
    large = _filled(Partition(place, "large", clock=SystemClock()), 400)
    assert len(_seeks(place, 4_000, 20)) == 20
    assert _roll(large) > 0
    record = large.read()
    assert sum(1 for _ in large.blocks(record)) == 401


def test_the_picture_is_drawn_of_what_was_measured(tmp_path):
    pytest.importorskip("matplotlib")
    sides = ("single", "chain_1", "chain_2", "chain_3")
    more = {
        "rates": {side: [1e8, 2e8] for side in sides},
        "waits": {side: [0.001, 0.002] for side in sides},
        "behind": [-1.0, 0.5],
        "pauses": {"kill -9 of the head": [0.5, 0.7], "link of the tail cut": [1.6, 1.7]},
    }
    place = tmp_path / "chain.svg"
    draw(more, place)
    first = place.read_bytes()
    draw(more, place)
    assert place.read_bytes() == first
    assert b"#cc3333" in first  # One of the pauses is too long.
