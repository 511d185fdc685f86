"""Who is started, who is killed when, and when all is through."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import quiver
from bench.demo_chain.blocks import BlockMap, merged
from bench.demo_chain.copies import Observer
from bench.demo_chain.journal import last_noted
from bench.demo_stream.processes import Actor
from bench.demo_stream.stage import Stage
from quiver.chain.record import Open
from quiver.errors import MissingError

__all__ = ["KILLS", "NODES", "Fault", "Play"]

NODES: Final = ("n1", "n2", "n3", "n4")
"""The last one comes when another one is lost for good."""
KILLS: Final = 5
"""The tail, the head, the middle, the loader, and the tail for good."""
_HEAD, _MIDDLE, _TAIL = 0, 1, -1
_PLACES: Final = {_HEAD: "head", _MIDDLE: "middle", _TAIL: "tail"}
_AWAY: Final = 1 / 30
"""A node is away while so much of the year is acknowledged."""
_ACTS: Final = 6
_PATIENCE: Final = 300.0
_SECONDS: Final = 40.0
"""Of a loader that nobody disturbs, or as long as the chain takes."""
_SLOW: Final = 0.05
"""Between two bundles while the chain changes: the year is not over before the play is."""


class Fault(NamedTuple):
    """What was done, when by the monotonic clock, and to which block."""

    what: str
    at_ns: int
    block: int


class Play:
    """Nodes, a loader, a live cursor, and Spark."""

    def __init__(self, folder: str, tell: Callable[[str], object], *, count: int) -> None:
        self._stage = stage = Stage(folder, tell)
        self._count = count
        self.folder = folder
        self.metadata, self.acked, self.seen, self.store, self.answer = (
            os.path.join(folder, name)
            for name in ("metadata", "acked.i64", "seen.i64", "store", "answer.json")
        )
        self._nodes = {name: self._node(name) for name in NODES}
        self._pace = os.path.join(folder, "pace")
        asked = [self.metadata, self.acked, self._pace]
        self._loader = stage.actor("loader", "bench.demo_chain.loader", asked)
        asked = [self.metadata, self.seen, self.store, str(count - 1)]
        self._reader = stage.actor("reader", "bench.demo_chain.reader", asked)
        self._query = stage.actor("query", "bench.demo_chain.query", [self.store, self.answer])
        self.cluster = quiver.connect(self.metadata)
        self.observer = Observer(self.cluster)
        self.faults: list[Fault] = []
        self.lost = ""
        """The node that does not come back."""
        self._at_loss: BlockMap | None = None

    def _node(self, name: str) -> Actor:
        place = os.path.join(self.folder, name)
        arguments = ["node", "--dir", place, "--metadata", self.metadata, "--name", name]
        return self._stage.actor(name, "quiver", arguments)

    @property
    def kills(self) -> int:
        """How many were killed."""
        return self._stage.kills

    def say(self, text: str) -> None:
        """Tell a line, with the time since the beginning."""
        self._stage.say(text)

    def run(self) -> None:
        """Play until the loader is done and the live cursor has all; nodes stay until ``close``."""
        self._begin()
        acts: list[Callable[[], None]] = [
            lambda: self._kill_node(_TAIL),
            lambda: self._kill_node(_HEAD),
            lambda: self._kill_node(_MIDDLE),
            self._stop_head,
            self._kill_loader,
            self._lose_tail,
        ]
        for number, act in enumerate(acts):
            self._await_acked(self._count * (number + 1) // (_ACTS + 1))
            act()
        self._end()

    def before(self) -> BlockMap:
        """Draw the map as it was when the node was lost, and blocks behind that as they are."""
        return merged(self._at_loss, self.observer.map(NODES, frozenset([self.lost])))

    def await_restored(self) -> BlockMap:
        """Wait until the nodes have made anew what was lost, and draw what there is then."""
        if not self._stage.has_come(lambda: self.observer.is_restored(self.lost), _PATIENCE):
            raise SystemExit(f"copies were not made anew; see {self.folder}/stderr.txt")
        self._stage.say("the nodes have made all copies anew that were lost or never written")
        return self.observer.map(NODES, frozenset([self.lost]))

    def ask_spark(self) -> None:
        """Let Spark count what the live cursor gave."""
        self._query.start()
        if not self._query.await_that(lambda: self._query.has_said("answered"), _PATIENCE):
            raise SystemExit(f"Spark did not answer; see {self.folder}/stderr.txt")
        self.say("Spark has counted the flights that the live cursor gave")

    def close(self) -> None:
        """Kill who is still there."""
        self._stage.close()
        self.cluster.close()

    # the beginning -------------------------------------------------------------------------------

    def _begin(self) -> None:
        stage = self._stage
        first = [self._nodes[name] for name in NODES[:-1]]
        for actor in first:
            actor.start()
        for actor in first:
            stage.await_that(f"{actor.name} serving", lambda each=actor: each.has_said(each.name))
        stage.start(self._reader, "ready")
        self._start(self._loader, "ready")
        self._await_acked(0)
        chain = self._chain()
        stage.say(f"three nodes serve; the loader writes to {chain}, and a cursor reads at the end")

    def _start(self, actor: Actor, word: str) -> None:
        self._go(_SLOW)
        self._stage.start(actor, word)
        self._go(_SECONDS / self._count)

    def _go(self, seconds: float) -> None:
        """Have the loader wait so long between two bundles."""
        new = f"{self._pace}.new"
        Path(new).write_text(f"{seconds:.6f}", encoding="utf-8")
        os.replace(new, self._pace)

    # what happens --------------------------------------------------------------------------------

    def _kill_node(self, place: int) -> None:
        name, opened = self._at(place)
        self._kill(self._nodes[name], f"{_PLACES[place]} {name}", opened)
        self._await_without(name)
        self._start(self._nodes[name], name)
        self._await_with(name)
        self._stage.say(f"{name} is there again; the chain is {self._chain()}")

    def _stop_head(self) -> None:
        """Stop the first node, which takes itself for the head yet when it goes on."""
        name, opened = self._at(_HEAD)
        self.faults.append(Fault(f"head {name} stopped", time.monotonic_ns(), opened.number))
        os.kill(self._nodes[name].pid, signal.SIGSTOP)
        self._stage.say(f"SIGSTOP  the head {name}, in block {opened.number}")
        self._await_without(name)
        os.kill(self._nodes[name].pid, signal.SIGCONT)
        self._await_with(name)
        self._stage.say(f"{name} went on and found itself out; now the chain is {self._chain()}")

    def _kill_loader(self) -> None:
        self._kill(self._loader, "loader", self._open())
        self._start(self._loader, "ready")
        self._stage.say("another loader goes on behind the last bundle of the record")

    def _lose_tail(self) -> None:
        self.lost, opened = self._at(_TAIL)
        self._kill(self._nodes[self.lost], f"tail {self.lost}", opened, word="lost")
        self._at_loss = self.observer.map(NODES, frozenset([self.lost]))
        new = NODES[-1]
        self._start(self._nodes[new], new)
        self._stage.say(f"{self.lost} does not come back; {new}, an empty one, serves instead")

    def _kill(self, actor: Actor, who: str, opened: Open, *, word: str = "killed") -> None:
        self.faults.append(Fault(f"{who} {word}", time.monotonic_ns(), opened.number))
        actor.kill()
        self._stage.note(
            f"the {who}, in block {opened.number}, behind {last_noted(self.acked) + 1:,} bundles"
        )

    def _at(self, place: int) -> tuple[str, Open]:
        """Say who is at a place of the chain, which may be short of nodes just now."""
        opened = self._open()
        return opened.locations[min(place, len(opened.locations) - 1)], opened

    def _open(self) -> Open:
        """Give the block that is written to; between two blocks there may be none."""
        self._stage.await_that("an open block", lambda: self._opened() is not None, self._go_on)
        opened = self._opened()
        return opened if opened is not None else self._open()

    def _opened(self) -> Open | None:
        try:
            return self.observer.partition.read().open
        except MissingError:
            return None

    def _locations(self) -> tuple[str, ...]:
        opened = self._opened()
        return opened.locations if opened is not None else ()

    def _chain(self) -> str:
        return " -> ".join(self._locations() if self._is_over else self._open().locations)

    @property
    def _is_over(self) -> bool:
        return self._loader.has_said("done")

    def _is_without(self, name: str) -> bool:
        found = self._locations()
        return bool(found) and name not in found

    def _await_without(self, name: str) -> None:
        """Wait until the chain has gone on without a node for a while."""
        self._go(_SLOW)
        self._stage.await_that(
            f"a chain without {name}", lambda: self._is_without(name), self._go_on
        )
        self._go(_SECONDS / self._count)
        self._await_acked(min(last_noted(self.acked) + int(self._count * _AWAY), self._count - 1))

    def _await_with(self, name: str) -> None:
        """Wait until a node is in the chain, or all is written."""
        self._stage.await_that(
            f"a chain with {name}", lambda: name in self._locations() or self._is_over, self._check
        )

    def _await_acked(self, number: int) -> None:
        self._stage.await_that(
            f"bundle {number:,}", lambda: last_noted(self.acked) >= number, self._check
        )

    def _go_on(self) -> None:
        self._check()
        if self._is_over:
            raise SystemExit("the year was over before the play was: is there enough of it?")

    def _check(self) -> None:
        for actor in (self._loader, self._reader):
            if not actor.is_alive and not actor.has_said("done"):
                raise SystemExit(f"the {actor.name} has ended; see {self.folder}/stderr.txt")

    # the end -------------------------------------------------------------------------------------

    def _end(self) -> None:
        stage = self._stage
        for actor in (self._loader, self._reader):
            stage.await_that(
                f"the end of the {actor.name}",
                lambda each=actor: each.has_said("done"),
                self._check,
            )
        stage.say("the loader is done, and the live cursor has come to the end of the year")
