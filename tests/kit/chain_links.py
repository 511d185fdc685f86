"""Links between machines of ``chain_world``: calls fail, get lost, come late; streams break."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from itertools import islice

from quiver.errors import MissingError, QuiverError, RemoteError
from quiver.testing.recorder import Killed

__all__ = ["Link", "Pipe"]


class Link:
    """A ``Peer`` as one machine sees it: calls may fail, get lost, come late."""

    def __init__(self, world, viewer, name):
        if name not in world.machines:
            raise MissingError(f"no node {name}")
        self.world, self.viewer, self.name = world, viewer, name

    @property
    def far(self):
        return self.world.machines[self.name]

    def unreached(self):
        return RemoteError(f"{self.name} is not reached", path=self.name, retryable=True)

    def call(self, method, *args):
        world = self.world
        if not world.reaches(self.viewer, self.far):
            raise self.unreached()
        fate = world.lot.random.random()
        if fate < world.late:
            world.lot.later(lambda: self.late(method, args))
            raise self.unreached()
        try:
            found = getattr(self.far.node, method)(*args)
        except Killed:
            self.far.die()
            raise self.unreached() from None
        if fate < world.late + world.lost:
            raise self.unreached()
        return found

    def late(self, method, args):
        if not self.far.is_dead:
            with suppress(QuiverError):
                try:
                    getattr(self.far.node, method)(*args)
                except Killed:
                    self.far.die()

    def prepare(self, route, layout):
        self.call("prepare", route, layout)

    def fence(self, block, epoch):
        return self.call("fence", block, epoch)

    def cut(self, block, sealed):
        self.call("cut", block, sealed)

    def finish(self, block):
        return self.call("finish", block)

    def settle(self, block, finished):
        self.call("settle", block, finished)

    def fetch(self, block, source, finished):
        self.call("fetch", block, source, finished)

    def verify(self, block):
        return self.call("verify", block)

    def damaged(self):
        return self.call("damaged")

    def condemn(self, block):
        return self.call("condemn", block)

    def drop(self, block, condemned=0):
        self.call("drop", block, condemned)

    def status(self):
        return self.call("status")

    def segment(self, block):
        return iter(list(self.call("segment", block)))

    def read(self, block, offset, *, live=False):
        return self.call("read", block, offset)

    def acks(self, block, epoch, tell=None):
        return islice(self.call("acks", block, epoch), 1)  # The lot says when it is asked again.

    def stream(self, route, *, acked, broken):
        return Pipe(self, route, acked, broken)


class Pipe:
    """A stream over a link: what goes down and what comes back, each in its order."""

    def __init__(self, link, route, acked, broken):
        self.world, self.link = link.world, link
        self.viewer, self.far, self.node = link.viewer, link.far, link.far.node
        self.down, self.back = deque(), deque()
        self.is_broken = self.is_closed = False
        self.tell_acked, self.tell_broken = acked, broken
        if not self.world.reaches(self.viewer, self.far):
            raise link.unreached()
        self.world.pipes.append(self)
        try:
            self.stream = self.node.stream(route, acked=self.on_acked, broken=self.on_broken)
        except Killed:
            self.far.die()
            raise link.unreached() from None

    def send(self, entries):
        came = entries._replace(body=memoryview(bytes(entries.body)))
        self.hand_down(lambda: self.stream.send(came))

    def assure(self, length):
        self.hand_down(lambda: self.stream.assure(length))

    def hand_down(self, act):
        if self.is_broken or self.is_closed:
            raise self.link.unreached()
        self.down.append(act)
        self.world.lot.later(self.deliver)

    def deliver(self):
        act = self.down.popleft()
        if self.far.is_dead or self.far.node is not self.node:
            return
        if not (self.world.reaches(self.viewer, self.far) or self.is_on_its_way()):
            self.world.lot.later(self.break_off)
            return
        with suppress(QuiverError):
            try:
                act()
            except Killed:
                self.far.die()

    def is_on_its_way(self):
        """Whether what a machine sent comes, which is dead by now."""
        is_cut = frozenset((self.viewer.name, self.far.name)) in self.world.cut
        return self.viewer.is_dead and not is_cut and self.world.lot.random.random() < 0.5

    def close(self):
        self.is_closed = True
        if self.world.lot.random.random() < 0.5:  # Else what is under way comes all the same.
            self.stream.close()

    def on_acked(self, ack):
        self.answer(lambda: self.tell_acked(ack))

    def on_broken(self, error):
        self.answer(lambda: self.break_with(error))

    def answer(self, tell):
        if not self.far.is_dead:
            self.back.append(tell)
            self.world.lot.later(self.hand_back)

    def hand_back(self):
        tell = self.back.popleft()
        if self.viewer.is_dead or self.is_broken:
            return
        if not self.world.reaches(self.viewer, self.far) and not self.far.is_dead:
            self.world.lot.later(self.break_off)
            return
        tell()

    def break_off(self):
        self.break_with(self.link.unreached())

    def break_with(self, error):
        if not self.is_broken:
            self.is_broken = True
            if not self.viewer.is_dead:
                self.tell_broken(error)
