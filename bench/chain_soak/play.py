"""A cluster from its start to its verdict: loaders and cursors go on, and faults strike."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from bench.chain_soak.faults import Struck, kinds_for, plan, strike
from bench.chain_soak.judge import Verdict, judge
from bench.chain_soak.network import network_for
from bench.chain_soak.nodes import NodeProcess, SmallDisk
from bench.chain_soak.pauses import Acks, Stills, longest
from bench.chain_soak.readers import Reader
from bench.chain_soak.settings import LIFE, PATIENCE, Setup, certificate, etcd_kit
from bench.chain_soak.writer import WriterProcess
from quiver.chain.cluster import connect

__all__ = ["Means", "Outcome", "Play"]

_NODES: Final = ("a", "b", "c", "d")
_RF: Final = {"core_0": 3, "core_1": 2}
_MAY_COME_SECOND: Final = ("kill -9", "stopped", "link down", "cut both ways")


@dataclass(frozen=True)
class Means:
    """What is there to make faults with."""

    is_real: bool
    """Namespaces."""
    has_mount: bool
    has_etcd: bool
    planted: tuple[str, ...] = ()
    """The words that start a node with a defect."""
    planted_loader: tuple[str, ...] = ()


@dataclass
class Outcome:
    """What came of plays."""

    problems: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    in_pairs: int = 0
    stood_still: int = 0
    """Pauses that were not counted, as the machine itself was not let on."""
    pauses: dict[str, list[float]] = field(default_factory=dict)
    leases: list[float] = field(default_factory=list)
    restored: list[float] = field(default_factory=list)
    sent: int = 0
    acked: int = 0
    committed: int = 0
    read: int = 0
    lives: int = 0
    blocks: int = 0
    copies: int = 0

    def add(self, other: Outcome) -> None:
        """Take in those of another play."""
        for name in ("problems", "leases", "restored"):
            getattr(self, name).extend(getattr(other, name))
        for name in (
            "in_pairs",
            "stood_still",
            "sent",
            "acked",
            "committed",
            "read",
            "lives",
            "blocks",
            "copies",
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.faults += other.faults
        for name, took in other.pauses.items():
            self.pauses.setdefault(name, []).extend(took)


class Play:
    """One cluster, used as a context; ``run`` strikes it."""

    def __init__(
        self, folder: Path, means: Means, rng: random.Random, *, tell: Callable[[str], None]
    ) -> None:
        """Take the folder; nothing is started."""
        self.rng = rng
        self._folder = folder
        self._means = means
        self._tell = tell
        self.small_node = _NODES[-1]
        self.small: SmallDisk | None = None
        self.aim = -1
        """Which location of a chain is struck; any, below 0."""
        self.etcd: Any = None
        self.nodes: dict[str, NodeProcess] = {}
        self.writers: dict[str, WriterProcess] = {}
        self.readers: list[Reader] = []
        self.acks: dict[str, Acks] = {}
        self.problems: list[str] = []
        self.leases: list[float] = []
        self._struck: list[Struck] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Start all of it."""
        with ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave nothing behind: no process, no namespace, no disk."""
        self._stack.close()

    def _start(self, stack: ExitStack) -> None:
        means, folder = self._means, self._folder
        self.stills = Stills()
        stack.callback(self.stills.close)
        folder.mkdir(parents=True)
        self.network = network_for(_NODES, real=means.is_real)
        stack.callback(self.network.close)
        if means.has_mount:
            self.small = SmallDisk(folder / f"node {self.small_node}")
            stack.callback(self.small.close)
        place = str(folder / "meta")
        if means.has_etcd:
            (folder / "etcd").mkdir()
            self.etcd = etcd_kit.EtcdServer(folder / "etcd", host=self.network.host)
            stack.callback(self.etcd.kill)
            place = f"etcd://{self.network.host}:{self.etcd.port}/soak"
        pem = certificate(str(folder / "pem"), _NODES) if means.is_real else ""
        self.setup = Setup(str(folder), place, _RF, pem)
        for name in _NODES:
            where = folder / f"node {name}" / "copies"
            where.parent.mkdir(exist_ok=True)
            node = NodeProcess(self.setup, self.network, name, folder=where, planted=means.planted)
            self.nodes[name] = node
            stack.callback(node.kill)
            node.start()
        for node in self.nodes.values():
            node.wait()
        self.cluster = connect(place, wire=self.setup.wire)
        stack.callback(self.cluster.close)
        for name in _RF:
            self.acks[name] = Acks(self.setup.log(f"acks {name}"))
            self.writers[name] = WriterProcess(self.setup, name, list(means.planted_loader))
            stack.callback(self.writers[name].kill)
            self.writers[name].start()
        self._until_acks("the start", time.monotonic_ns())
        for names in (["core_0"], ["core_1"], list(_RF)):
            reader = Reader(self.cluster, names)
            stack.callback(reader.close)
            self.readers.append(reader)

    # faults --------------------------------------------------------------------------------------

    def run(
        self, count: int, *, kinds: Sequence[str] | None = None, settles: float = 2 * PATIENCE
    ) -> Outcome:
        """Strike so often, by faults of these kinds, and judge what is left.

        Copies have to be whole again after so many seconds.
        """
        for kind in plan(list(kinds or kinds_for(self)), count, self.rng):
            self._round(kind)
            self._look_after()
            if self.problems:
                break
        return self._ended(settles)

    def _round(self, kind: str) -> None:
        first = None
        limit = time.monotonic() + PATIENCE
        while first is None and time.monotonic() < limit:
            time.sleep(self.rng.uniform(0.3, 1.0))
            first = strike(self, kind)
        if first is None:
            self.problems.append(f"there is nobody to strike by {kind}")
            return
        struck = [first]
        time.sleep(self.rng.uniform(0.0, 0.8))
        if first.nodes and self.rng.random() < 0.25:
            kinds = [each for each in _MAY_COME_SECOND if each in kinds_for(self)]
            second = strike(self, self.rng.choice(kinds), spared=first.nodes)
            if second is not None:
                struck.append(second)
                first.is_alone = second.is_alone = False
        time.sleep(self.rng.uniform(1.2, 2.4))
        for each in struck:
            each.take_back()
        self._until_acks(", ".join(f"{each.kind} {each.told}" for each in struck))
        self._struck += struck
        pauses = [
            f"{name} {self._pause(each, name):.2f} s ({place})"
            for each in struck
            for name, place in each.places.items()
        ]
        told = " + ".join(f"{each.kind} {each.told}" for each in struck)
        self._tell(f"  {len(self._struck):>3} {told}: {', '.join(pauses) or 'nobody waits'}")

    def _pause(self, struck: Struck, partition: str) -> float:
        return longest(self.acks[partition].times, struck.begun_ns, struck.over_ns)

    def _until_acks(self, told: str, since_ns: int = 0) -> None:
        """Return once each partition had an ack since; say so if one has none."""
        since_ns = since_ns or time.monotonic_ns()
        limit = time.monotonic() + PATIENCE
        for name, acks in self.acks.items():
            while not acks.times or acks.times[-1] < since_ns:
                acks.look()
                if self._loader_is_gone(name) or time.monotonic() > limit:
                    self.problems.append(f"{name}: nothing is acknowledged after {told}")
                    return
                time.sleep(0.02)

    def _loader_is_gone(self, name: str) -> bool:
        if said := self.writers[name].how_it_ended():
            self.problems.append(said)
        return bool(said)

    def _look_after(self) -> None:
        for node in self.nodes.values():
            if said := node.ended_by_itself():
                self.problems.append(said)
        for name in self.writers:
            self._loader_is_gone(name)

    # verdict -------------------------------------------------------------------------------------

    def _ended(self, settles: float) -> Outcome:
        verdict = Verdict()
        if not self.problems:
            for writer in self.writers.values():
                if writer.end():
                    self.problems.append(writer.how_it_ended())
            verdict = judge(self.cluster, _NODES, self.acks, readers=self.readers, seconds=settles)
        outcome = Outcome(
            problems=self.problems + verdict.problems,
            faults=Counter(each.kind for each in self._struck),
            in_pairs=sum(not each.is_alone for each in self._struck),
            leases=self.leases,
            restored=[verdict.seconds],
            lives=sum(writer.life for writer in self.writers.values()),
            blocks=verdict.blocks,
            copies=verdict.copies,
        )
        for name, acks in self.acks.items():
            outcome.sent += _count(acks.sent)
            outcome.acked += _count(acks.acked)
            outcome.committed += len(verdict.committed.get(name, ()))
        outcome.read = sum(len(each) for reader in self.readers for each in reader.found.values())
        self._add_pauses(outcome)
        return outcome

    def _add_pauses(self, outcome: Outcome) -> None:
        for each in self._struck:
            if self.stills.reach_into(each.begun_ns, each.over_ns):
                outcome.stood_still += len(each.places)
                continue
            for name, place in each.places.items():
                label = f"{each.kind}|{place}" if each.is_alone else "two at once|any"
                outcome.pauses.setdefault(label, []).append(self._pause(each, name))


def _count(last: dict[int, int]) -> int:
    return sum(number - life * LIFE + 1 for life, number in last.items())
