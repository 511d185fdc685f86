"""For whom a loader waits, and how long: all are asked at once, and who was silent only briefly."""

from __future__ import annotations

import random

import pytest
from record_kit import CHAIN, begun

from quiver.chain.loading.driver import Driver
from quiver.chain.loading.happenings import Begun, Claims, GraceOver, Places, StreamBroke
from quiver.chain.loading.rules import LoaderRules
from quiver.chain.loading.tasks import HURRY, PAUSE, Surroundings, Tasks
from quiver.chain.metadata import BucketMetadata
from quiver.chain.peers import BlockName, Route, SilentError
from quiver.chain.placing import Node
from quiver.chain.record import claimed
from quiver.chain.rolling import Answered, PlaceNow
from quiver.chain.sealing import Answer
from quiver.errors import RemoteError
from quiver.ship.objects import MemoryBucket
from quiver.slots import SlotTable
from quiver.testing import ManualClock


class Held:
    """Workers who do nothing before they are told."""

    def __init__(self):
        self.tasks = []

    def spawn(self, _, task):
        self.tasks.append(task)

    def run(self):
        tasks, self.tasks = self.tasks, []
        for task in tasks:
            task()


class Room:
    def __init__(self, name, full):
        self.name, self.full = name, full

    def prepare(self, route, layout):
        if self.name in self.full:
            raise RemoteError(f"{self.name} is full", path=self.name)

    def status(self):
        """It answers."""


def placing(full):
    held, posted = Held(), []
    nodes = [Node(f"n{number}", 1 << 40, 1 << 41) for number in range(4)]
    around = Surroundings(
        BucketMetadata(MemoryBucket()), lambda name: Room(name, full), lambda: nodes, held,
        ManualClock(), random.Random(1),
    )  # fmt: skip
    slots = SlotTable.of(["events"])
    tasks = Tasks(around, "core_0", slots, post=posted.append, hear=lambda *_: False)
    tasks.place(PlaceNow(0, frozenset(), ahead=False), rf=3, epoch=1)
    held.run()
    return held, posted


def test_all_nodes_are_asked_for_room_at_once():
    held, posted = placing(full=())
    assert len(held.tasks) == 3
    assert not posted
    held.run()
    (places,) = posted
    assert isinstance(places, Places)
    assert len(set(places.locations)) == 3


def test_another_one_is_asked_instead_of_who_has_no_room():
    full = ["n0", "n1"]
    held, posted = placing(full)
    while held.tasks:
        held.run()
    (places,) = posted
    assert isinstance(places, Places)
    assert set(places.locations) == {"n2", "n3"}


class Recorder:
    """Tasks that are noted, and not done."""

    def __init__(self):
        self.waits = []

    def after(self, happening, *, seconds=PAUSE):
        assert isinstance(happening, GraceOver)
        self.waits.append(seconds)

    def __getattr__(self, _):
        return lambda *_, **__: None


@pytest.mark.parametrize("error", [SilentError, RemoteError], ids=["silent", "else"])
def test_the_last_one_is_waited_for_briefly_if_it_was_silent(error):
    driver = Driver("core_0", LoaderRules(), by="loader", wake=lambda: None)
    driver.tasks = recorder = Recorder()
    record = begun()
    driver.post(Begun(record))
    driver.turn()
    driver._flow.route = Route(BlockName("core_0", 0), record.epoch, CHAIN)
    driver.post(StreamBroke(0, error("it is", path=CHAIN[1])))
    record = claimed(record, "loader")
    driver.post(Claims(record))
    for location in (CHAIN[0], CHAIN[2]):
        assert HURRY not in recorder.waits
        driver.post(Answered(record.epoch, Answer(location, 100, 9, 1, 9)))
        driver.turn()
    assert PAUSE in recorder.waits
    assert (HURRY in recorder.waits) is (error is SilentError)
