"""Each kind of fault: whom it strikes, and how it is taken back."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from bench.chain_soak.settings import PATIENCE
from quiver.chain.placing import auditor_in
from quiver.chain.record import Partition
from quiver.clock import SystemClock
from quiver.errors import QuiverError

if TYPE_CHECKING:
    from bench.chain_soak.play import Play

__all__ = ["FAULTS", "Struck", "kinds_for", "plan", "strike"]

_PLACES: Final = {2: ("head", "tail"), 3: ("head", "middle", "tail")}
_TOO_FEW: Final = "too few copies yet"
"""Where a block has not as many locations as it should, since another fault was only just over."""
_STATES: Final = frozenset({"kill -9", "stopped", "link down", "drain"})


@dataclass
class Struck:
    """A fault that was made."""

    kind: str
    told: str
    undo: Callable[[], None]
    nodes: tuple[str, ...] = ()
    places: dict[str, str] = field(default_factory=dict)
    """Where it is in the open block of each partition, where it is in one."""
    partition: str = ""
    """Of a loader that was struck."""
    begun_ns: int = field(default_factory=time.monotonic_ns)
    over_ns: int = 0
    is_alone: bool = True

    def take_back(self) -> None:
        """Undo it; returns when whoever was struck is back."""
        self.over_ns = time.monotonic_ns()
        self.undo()


def kinds_for(play: Play) -> list[str]:
    """Give the kinds that can be made here."""
    left = {
        "cut one way": play.network.is_real,
        "cut both ways": play.network.is_real,
        "disk full": play.small is not None,
        "metadata stopped": play.etcd is not None,
        "metadata killed": play.etcd is not None,
    }
    return [kind for kind in FAULTS if left.get(kind, True)]


def plan(kinds: list[str], count: int, rng: random.Random) -> list[str]:
    """Each as often as its weight says, in any order."""
    weighted = [kind for kind in kinds for _ in range(3 if kind in _STATES else 2)]
    found: list[str] = []
    while len(found) < count:
        found += rng.sample(weighted, len(weighted))
    return found[:count]


def strike(play: Play, kind: str, *, spared: tuple[str, ...] = ()) -> Struck | None:
    """Make a fault at random that spares some nodes; None if there is nobody to strike now."""
    return FAULTS[kind](play, kind, spared)


def chains(play: Play) -> dict[str, tuple[str, ...]]:
    """Give the locations of the open blocks; none while the metadata are away."""
    found = {}
    for name in play.writers:
        try:
            record = Partition(play.cluster.metadata, name, clock=SystemClock()).read()
        except QuiverError:
            continue
        if record.open is not None:
            found[name] = record.open.locations
    return found


def _victim(play: Play, kind: str, spared: tuple[str, ...]) -> tuple[str, dict[str, str]] | None:
    """Choose a place of a chain, and who is there."""
    found = chains(play)
    if not found:
        return None
    chain = found[play.rng.choice(sorted(found))]
    at = play.rng.randrange(len(chain)) if play.aim < 0 else min(play.aim, len(chain) - 1)
    node = play.small_node if kind == "disk full" else chain[at]
    places = _places(play, found, node)
    return None if node in spared or not places else (node, places)


def _places(play: Play, found: dict[str, tuple[str, ...]], node: str) -> dict[str, str]:
    return {
        name: _place(play, name, chain, _PLACES[play.setup.rf[name]][chain.index(node)])
        for name, chain in found.items()
        if node in chain
    }


def _place(play: Play, name: str, chain: tuple[str, ...], place: str) -> str:
    return _TOO_FEW if len(chain) < play.setup.rf[name] else place


def _node(play: Play, kind: str, spared: tuple[str, ...]) -> Struck | None:
    """Strike one node at a place of a chain."""
    chosen = _victim(play, kind, spared)
    if chosen is None:
        return None
    name, places = chosen
    node = play.nodes[name]

    def back() -> None:
        node.start()
        node.wait()

    struck = Struck(kind, name, back, (name,), places)
    match kind:
        case "kill -9":
            node.kill()
        case "stopped":
            node.signal(signal.SIGSTOP)
            struck.undo = lambda: node.signal(signal.SIGCONT)
        case "link down":
            play.network.down(name)
            struck.undo = lambda: play.network.up(name)
        case "drain":
            if code := node.drain():
                play.problems.append(f"{name} drained, and ended with {code}")
        case "disk full":
            play.small.fill()
            struck.undo = play.small.free
    return struck


def _pair(play: Play, kind: str, spared: tuple[str, ...]) -> Struck | None:
    """Cut two neighbours of a chain from each other, or one from the other."""
    found = {name: chain for name, chain in chains(play).items() if len(chain) > 1}
    if not found:
        return None
    partition = play.rng.choice(sorted(found))
    pairs = list(pairwise(found[partition]))
    at = play.rng.randrange(len(pairs))
    ways = [pairs[at], pairs[at][::-1]]
    if kind == "cut one way":
        ways = [ways[play.rng.randrange(2)]]
    if set(pairs[at]) & set(spared):
        return None
    for one, other in ways:
        play.network.cut(one, other)

    def back() -> None:
        for one, other in ways:
            play.network.mend(one, other)

    place = "first two" if at == 0 else "last two"
    place = _place(play, partition, found[partition], place)
    told = " and ".join(f"{one} to {other}" for one, other in ways)
    return Struck(kind, told, back, pairs[at], {partition: place})


def _metadata(play: Play, kind: str, spared: tuple[str, ...]) -> Struck | None:
    """Have the metadata answer nobody."""
    del spared
    everywhere = dict.fromkeys(chains(play), "all")
    if kind == "metadata stopped":
        play.etcd.signal(signal.SIGSTOP)
        return Struck(kind, "etcd", lambda: play.etcd.signal(signal.SIGCONT), (), everywhere)
    play.etcd.kill()
    return Struck(kind, "etcd", play.etcd.start, (), everywhere)


def _loader(play: Play, kind: str, spared: tuple[str, ...]) -> Struck | None:
    """Kill a loader, or stop it and have another one take over before it wakes up."""
    del spared
    name = play.rng.choice(sorted(play.writers))
    writer = play.writers[name]
    struck = Struck(kind, name, lambda: None, (), {name: "all"}, name)
    if kind == "loader killed":
        writer.kill()
        writer.start()
        return struck
    writer.stop()
    writer.start()

    def wakes() -> None:
        if not writer.wake():
            play.problems.append(f"a loader of {name} that was taken over from goes on")

    struck.undo = wakes
    return struck


def _auditor(play: Play, kind: str, spared: tuple[str, ...]) -> Struck | None:
    """Kill whoever has the auditor's lease, and wait until another one has it."""
    name = _holder(play)
    if name not in play.nodes or name in spared:
        return None
    node = play.nodes[name]
    struck = Struck(kind, name, lambda: None, (name,), _places(play, chains(play), name))
    node.kill()

    def back() -> None:
        while _holder(play) in ("", name):
            if time.monotonic_ns() - struck.begun_ns > PATIENCE * 1e9:
                play.problems.append(f"nobody took the auditor's lease from {name}")
                break
            time.sleep(0.1)
        else:
            play.leases.append((time.monotonic_ns() - struck.begun_ns) / 1e9)
        node.start()
        node.wait()

    struck.undo = back
    return struck


def _holder(play: Play) -> str:
    try:
        return auditor_in(play.cluster.metadata)
    except QuiverError:
        return ""


def _cursor(play: Play, kind: str, spared: tuple[str, ...]) -> Struck | None:
    """Have a live cursor closed, and another one go on."""
    del spared
    reader = play.rng.choice(play.readers)
    reader.go_on_with_another()
    return Struck(kind, ", ".join(reader.partitions), lambda: None)


FAULTS: Final[dict[str, Callable[[Play, str, tuple[str, ...]], Struck | None]]] = {
    "kill -9": _node,
    "stopped": _node,
    "link down": _node,
    "cut one way": _pair,
    "cut both ways": _pair,
    "disk full": _node,
    "drain": _node,
    "metadata stopped": _metadata,
    "metadata killed": _metadata,
    "loader killed": _loader,
    "loader stopped": _loader,
    "auditor killed": _auditor,
    "cursor anew": _cursor,
}
