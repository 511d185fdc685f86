"""Nodes, links and loaders of a chain in one thread: a seed says who is let on, and what fails.

Whoever would be a thread is a turn here, and one turn after the other is taken by lot; so each
seed is one interleaving, the same each time. Messages of a stream lie in a queue until the lot
lets them on, also those of a stream that was broken meanwhile.
"""

from __future__ import annotations

import random
from contextlib import suppress

import pyarrow as pa
from chain_links import Link
from copies_kit import SLOTS

from quiver.chain.copies import Copies, CopyRules
from quiver.chain.copies.format import LOG_BEGIN
from quiver.chain.copies.names import LOG, file_of
from quiver.chain.loading import Loader, LoaderRules, Surroundings
from quiver.chain.metadata import BucketMetadata
from quiver.chain.node import LocalNode
from quiver.chain.peers import BlockName
from quiver.chain.placing import Node
from quiver.chain.record import Partition
from quiver.errors import QuiverError, RemoteError
from quiver.ship.objects import MemoryBucket
from quiver.testing import ManualClock, MemoryDisk, crash_images
from quiver.testing.recorder import Killed

__all__ = ["Client", "Lot", "World"]


class Lot:
    """Whose turn it is."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.turns = []

    def later(self, turn):
        self.turns.append(turn)

    def one(self):
        at = self.random.randrange(len(self.turns))
        self.turns[at], self.turns[-1] = self.turns[-1], self.turns[at]
        self.turns.pop()()


class Turns:
    """``Workers`` of one machine; nothing of it runs once that is dead."""

    def __init__(self, lot, machine):
        self.lot, self.machine = lot, machine

    def start(self, name, work):
        return Turn(self, work)

    def spawn(self, name, task):
        self.lot.later(lambda: self.run(task))

    def run(self, task):
        if self.machine.is_dead:
            return
        try:
            task()
        except Killed:
            self.machine.die()


class Turn:
    def __init__(self, turns, work):
        self.turns, self.work = turns, work
        self.is_due = self.is_ended = False

    def wake(self):
        if not self.is_due:
            self.is_due = True
            self.turns.lot.later(self.take)

    def hurry(self):
        """The caller does it himself, or finds somebody at it; if it kills him, whoever let him."""
        if self.turns.lot.random.random() < 0.5:
            self.wake()
        elif not self.is_ended:
            self.work()

    def lend(self, act):
        """Somebody is at it, or the caller does what he likes."""
        if self.is_ended or self.turns.lot.random.random() < 0.5:
            return False
        act()
        return True

    def take(self):
        self.is_due = False
        if not self.is_ended:
            self.turns.run(self.work)

    def end(self):
        self.is_ended = True


class Machine:
    """A node's machine: its disk outlives the process."""

    def __init__(self, world, name):
        self.world, self.name = world, name
        self.disk = MemoryDisk()
        self.boots = 0
        self.is_dead = True
        self.node = None
        self.capacity = 1 << 40
        self.is_cabled = True

    def room(self):
        held = sum(
            each.finished.size if each.finished else each.length for each in self.copies.holdings()
        )
        return self.capacity - held, self.capacity

    def start(self):
        self.is_dead = False
        self.disk.heal()
        self.disk.forget_locks()
        boot = str(self.boots).encode().rjust(16, b"0")
        copies = Copies(self.disk, CopyRules(self.name, boot=boot))
        self.copies = copies
        self.node = LocalNode(
            self.name,
            copies,
            peers=lambda name: Link(self.world, self, name),
            workers=Turns(self.world.lot, self),
            room=self.room,
            live_seconds=0,
        )

    def die(self):
        """Kill -9."""
        self.is_dead = True
        self.world.broke_off(self)
        if not self.is_cabled:
            self.lose_memory()

    def lose_power(self):
        self.is_cabled = False
        self.die()

    def lose_memory(self):
        """Have of all that was not synced what the lot says."""
        self.is_cabled = True
        self.boots += 1
        history = self.disk.history
        lot = self.world.lot.random
        images = list(
            crash_images(history, model="posix", budget=12, seed=lot.randrange(999),
                         points=[len(history.ops)])
        )  # fmt: skip
        self.disk = MemoryDisk(lot.choice(images).tree)


class Client:
    """A loader's machine."""

    def __init__(self, name):
        self.name, self.is_dead = name, False

    def die(self):
        self.is_dead = True


class FaultyMetadata(BucketMetadata):
    """Metadata that are away, or lose their answers."""

    def __init__(self, world):
        super().__init__(MemoryBucket())
        self.world = world
        self.is_away = False

    def _fate(self):
        if self.is_away:
            raise RemoteError("the metadata are away", retryable=True)

    def get(self, key):
        self._fate()
        return super().get(key)

    def cas(self, key, revision, data):
        self._fate()
        return super().cas(key, revision, data)


class World:
    """All of it, and what was seen."""

    def __init__(self, seed, *, nodes=4, rf=2, late=0.0, lost=0.0, **rules):
        self.lot = Lot(seed)
        self.late, self.lost = late, lost
        self.clock = ManualClock()
        self.metadata = FaultyMetadata(self)
        self.cut = set()
        self.pipes = []
        self.machines = {name: Machine(self, name) for name in "abcdef"[:nodes]}
        for machine in self.machines.values():
            machine.start()
        self.rules = LoaderRules(rf=rf, **({"soft_bytes": 4_000, "hard_bytes": 9_000} | rules))
        self.loaders = []
        self.seen = {}
        self.sent = []
        self.faults = []

    # faults --------------------------------------------------------------------------------------

    def reaches(self, one, other):
        if other.is_dead or one.is_dead:
            return False
        return frozenset((one.name, other.name)) not in self.cut

    def broke_off(self, machine):
        """Break the streams of a machine that died, each when the lot says so."""
        for pipe in self.pipes:
            if pipe.far is machine and pipe.node is machine.node:
                self.lot.later(pipe.break_off)

    def join(self, name):
        """Have one more node."""
        self.machines[name] = Machine(self, name)
        self.machines[name].start()

    def cut_link(self, one, other):
        self.cut.add(frozenset((one, other)))
        for pipe in self.pipes:
            if {pipe.viewer.name, pipe.far.name} == {one, other}:
                self.lot.later(pipe.break_off)

    def heal(self):
        self.cut.clear()
        self.metadata.is_away = False
        for machine in self.machines.values():
            if any(fault.hits for fault in machine.disk._faults) and not machine.is_dead:
                machine.die()  # A sync that failed is the last act of a process.
            if machine.is_dead:
                machine.start()
            machine.disk.heal()
        self.late = self.lost = 0.0

    # loading -------------------------------------------------------------------------------------

    def nodes(self):
        return [
            Node(name, *machine.room())
            for name, machine in self.machines.items()
            if not machine.is_dead
        ]

    def loader(self, name="loader", **rules):
        client = Client(name)
        around = Surroundings(
            self.metadata,
            lambda node: Link(self, client, node),
            self.nodes,
            Turns(self.lot, client),
            self.clock,
            self.lot.random,
        )
        merged = LoaderRules(
            **{f: getattr(self.rules, f) for f in self.rules.__dataclass_fields__} | rules
        )
        loader = Loader(around, "core_0", SLOTS, rules=merged)
        loader.client = client
        self.loaders.append(loader)
        return loader

    def send(self, loader, **given):
        batch = pa.record_batch({"n": pa.array([len(self.sent), 7], pa.int64())})
        self.clock.step("1us")
        receipt = loader.send({"events": batch}, timeout=0, **given)
        self.sent.append(receipt)
        return receipt

    # running -------------------------------------------------------------------------------------

    def run(self, until=lambda: False, turns=4_000):
        """Let turns be taken until something is so, or nothing is left to do."""
        for _ in range(turns):
            if until() or not self.lot.turns:
                break
            self.lot.one()
        return until()

    # what is to be so ----------------------------------------------------------------------------

    def partition(self):
        return Partition(self.metadata, "core_0", clock=self.clock)

    @staticmethod
    def tail_of(record):
        return record.open.locations[-1]

    def log_of(self, name, block):
        """Read what is in a node's file, also if the node is dead."""
        disk = self.machines[name].disk
        path = file_of(block, LOG)
        if disk.stat(path) is None:
            return b""
        file = disk.open(path)
        data = file.read(LOG_BEGIN, 1 << 30)
        file.close()
        return data

    def look(self):
        """Read what a reader at the tail sees now, if the record and the tail can be reached."""
        try:
            record = self.partition().read()
        except QuiverError:
            return
        if record.open is None:
            return
        tail = self.machines[self.tail_of(record)]
        if tail.is_dead:
            return
        block = BlockName("core_0", record.open.number)
        with suppress(QuiverError):
            data = b"".join(map(bytes, tail.node.read(block, 0)))
            for location in record.open.locations:
                assert self.log_of(location, block).startswith(data), "seen before all have it"
            if len(data) > len(self.seen.get(block.number, b"")):
                self.seen[block.number] = data
