"""Machines of a world that look after their chain, second after second."""

from __future__ import annotations

from chain_links import Link

from quiver.chain.membership import Members, Registration
from quiver.chain.peers import NodeState
from quiver.chain.serving import Auditing, AuditRules

__all__ = ["Watch", "Watched"]


class Watched:
    """A machine's node with its part in the audit, and its entry."""

    def __init__(self, world, name, fed):
        self.name, self.world = name, world
        machine = world.machines[name]
        links = [Link(world, machine, each) for each in world.machines if each != name]
        self.members = Members(world.metadata, clock=world.clock, own=[*links, machine.node])
        self.entry = Registration(
            world.metadata,
            name,
            address=f"{name}:1",
            room=lambda: (1 << 40, 1 << 40),
            clock=world.clock,
        )
        self.entry.state = NodeState.SERVING
        self.is_left = False
        self.auditing = Auditing(
            machine.node,
            world.metadata,
            self.members,
            is_fed=fed.__contains__,
            left=self.leave,
            clock=world.clock,
            rules=AuditRules(),
        )

    def leave(self):
        self.is_left = True
        self.entry.state = NodeState.DRAINING

    @property
    def is_dead(self):
        return self.world.machines[self.name].is_dead


class Watch:
    """All machines of a world, second after second."""

    def __init__(self, world):
        self.world = world
        self.fed = set()
        self.nodes = {name: Watched(world, name, self.fed) for name in world.machines}
        self.seconds(1)

    def seconds(self, count):
        for _ in range(count):
            self.world.clock.step(1)
            alive = [node for node in self.nodes.values() if not node.is_dead]
            for node in alive:
                node.entry.beat()
            for node in alive:
                node.auditing.watch()

    def audit(self):
        """Each machine does what it does every few seconds."""
        for node in self.nodes.values():
            if not node.is_dead:
                node.auditing.audit()
                assert node.auditing.faults == []

    def auditors(self):
        return [name for name, node in self.nodes.items() if node.auditing.is_auditor]
