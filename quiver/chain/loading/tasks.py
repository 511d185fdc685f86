"""What a loader has done beside it: everything that may wait for a machine."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeAlias

from quiver.chain.loading.candidates import Candidates
from quiver.chain.loading.happenings import (
    Again,
    Begun,
    Claims,
    Commits,
    Failed,
    Happening,
    Looked,
    Lost,
    Mended,
    Opened,
    Places,
    Slow,
    StreamBroke,
    Unanswered,
)
from quiver.chain.loading.hearing import Hearing
from quiver.chain.loading.rules import AWAY
from quiver.chain.metadata import Metadata
from quiver.chain.peers import Ack, BlockName, Peers, Route, encode_layout, promised
from quiver.chain.placing import Node, choose
from quiver.chain.placing.choose import Random
from quiver.chain.record import Partition, Record, claimed, committed
from quiver.chain.rolling import Answered, ClaimNow, CommitNow, CutNow, FenceNow, PlaceNow
from quiver.chain.workers import Workers
from quiver.clock import Clock
from quiver.errors import ClosedError, FencedError, InputError, QuiverError, RemoteError
from quiver.slots import SlotTable

__all__ = ["HURRY", "Surroundings", "Tasks"]

PAUSE: Final = 0.25
"""Seconds until what failed is tried again, and for which the other locations are waited for."""
HURRY: Final = 0.05
"""Seconds for which the last one is waited for that was silent before."""
AVOIDED: Final = 10.0
AVOIDED_MAX: Final = 600.0
"""Seconds for which two nodes that did not reach each other are not neighbours: twice as long each
time."""
_WIDEN_SECONDS: Final = 1.0
_LISTEN_SECONDS: Final = 1.0
_LISTEN_TRIES: Final = 10
_BACK_SECONDS: Final = 0.5
_BACK_TRIES: Final = 20

Pairs: TypeAlias = frozenset[tuple[str, str]]
Post: TypeAlias = Callable[[Happening], None]


class Hear(Protocol):
    """Takes what is safe of a stream at once; False: nobody asks for that stream any more."""

    def __call__(self, turn: int, ack: Ack, *, by_tail: bool = False) -> bool:
        """Take it; ``by_tail``: from the last node itself."""
        ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where a loader is: what it reaches, and what it is given instead of taking it."""

    metadata: Metadata
    peers: Peers
    nodes: Callable[[], Sequence[Node]]
    """Those that serve now; may wait for them, and raise."""
    workers: Workers
    clock: Clock
    random: Random


class Tasks:
    """Starts tasks; each posts what came of it. Safe for many threads."""

    def __init__(
        self, around: Surroundings, name: str, slots: SlotTable, *, post: Post, hear: Hear
    ) -> None:
        """Work for the loader of one partition."""
        self._around = around
        self._name = name
        self._layout = encode_layout(slots)
        self._post = post
        self._hear = hear
        self._lock = threading.Lock()
        self._lock_of_answers = threading.Lock()
        self._hearing = Hearing(around.clock)
        self._listened: set[str] = set()
        self._partition = Partition(around.metadata, name, clock=around.clock)
        self._breaks: Counter[tuple[str, str]] = Counter()

    def _spawn(self, task: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                task()
            except BaseException as error:
                said = f"a task of the loader stopped: {error!r:.200}"
                self._post(Lost(ClosedError(said)))
                raise

        self._around.workers.spawn(f"quiver loader {self._name}", guarded)

    def after(self, happening: Happening, *, seconds: float = PAUSE) -> None:
        """Post it a quarter of a second from now, or later."""

        def task() -> None:
            self._around.clock.pause(seconds)
            self._post(happening)

        self._spawn(task)

    # record ------------------------------------------------------------------------------------

    def begin(self, rf: int, *, is_rising: bool) -> None:
        """Read the record, made if there is none."""

        def task() -> None:
            try:
                with self._lock:
                    record = self._partition.create(rf, is_rising=is_rising)
                    if record.is_rising and not is_rising:
                        raise _rises(self._partition.name)
                    self._post(Begun(record))
            except QuiverError as error:
                self._post(Failed(None, error))

        self._spawn(task)

    def claim(self, act: ClaimNow, *, takes_over: bool) -> None:
        """Put the claim."""

        def task() -> None:
            try:
                with self._lock:
                    record = self._partition.change(partial(_claimed, act.by, takes_over))
            except QuiverError as error:
                self._post(Failed(act, error))
            else:
                self._post(Claims(record))

        self._spawn(task)

    def commit(self, act: CommitNow) -> None:
        """Put the commit; one that was put before is found."""

        def change(record: Record) -> Record:
            return committed(record, act.claim, act.sealed, following=act.following)

        def task() -> None:
            try:
                with self._lock:
                    try:
                        record = self._partition.change(change)
                    except FencedError:
                        record = self._partition.read()
                        if (record.epoch, record.sealing_by) != (act.claim.epoch, ""):
                            raise
            except QuiverError as error:
                self._post(Failed(act, error))
            else:
                self._post(Commits(record))

        self._spawn(task)

    def look(self, epoch: int, by: str) -> None:
        """Find out whether somebody else claimed since: a location promised more than is ours."""

        def task() -> None:
            with suppress(*AWAY):  # It is asked again as long as nobody promises.
                with self._lock:
                    record = self._partition.read()
                if record.epoch > epoch and (record.sealing_by or record.writer) != by:
                    self._post(
                        Lost(
                            FencedError(
                                f"{record.sealing_by or record.writer or 'somebody'} has "
                                f"{self._name} now",
                                epoch=epoch,
                                current=record.epoch,
                                hint="what was not acknowledged may be in it, or not",
                            )
                        )
                    )

        self._spawn(task)

    # nodes -------------------------------------------------------------------------------------

    def place(self, act: PlaceNow, *, rf: int, epoch: int) -> None:
        """Choose locations, and have all of them make room; others instead of who does not."""

        def task() -> None:
            try:
                nodes = self._hearing.heard_first(self._around.nodes())
            except QuiverError as error:
                self._post(Failed(act, error))
            else:
                self._ask_for_room(act, Candidates(nodes, rf, epoch))

        self._spawn(task)

    def look_wider(self, turn: int, count: int, *, rf: int, avoid: Pairs) -> None:
        """Look, a little later, whether a block may have more than so many locations."""

        def task() -> None:
            self._around.clock.pause(_WIDEN_SECONDS)
            found: tuple[str, ...] = ()
            with suppress(QuiverError):  # The metadata are away.
                nodes = self._hearing.heard_first(self._around.nodes())
                found = choose(nodes, rf, self._around.random, avoid=avoid).locations
            self._post(Looked(turn, len(found) > count))

        self._spawn(task)

    def _ask_for_room(self, act: PlaceNow, placing: Candidates) -> None:
        """Ask all that are chosen at once; whose answer is the last one goes on from there."""
        chain = placing.choose(self._around.random, avoid=act.avoid)
        if not chain:
            self._post(Failed(act, placing.failure(self._name, act.number)))
            return
        route = Route(BlockName(self._name, act.number), placing.epoch, chain)
        left = set(chain)

        def ask(name: str) -> None:
            fault = None
            try:
                with self._hearing.asked(name):
                    self._around.peers(name).prepare(route, self._layout)
            except QuiverError as error:
                fault = error
                self._listen(name)
            with self._lock_of_answers:
                if fault is not None:
                    placing.failed[name] = fault
                left.discard(name)
                is_last = not left
            if not is_last:
                return
            if placing.failed.keys().isdisjoint(chain):
                self._post(Places(act, chain, placing.epoch))
            else:
                self._ask_for_room(act, placing)

        for name in chain:
            self._spawn(partial(ask, name))

    def _listen(self, name: str) -> None:
        """Ask a node that is quiet again and again: a chain is not to lack it once it is back."""

        def task() -> None:
            try:
                for _ in range(_BACK_TRIES):
                    self._around.clock.pause(_BACK_SECONDS)
                    if not self._hearing.is_quiet(name):
                        return
                    with suppress(QuiverError):
                        self._around.peers(name).status()
                        self._hearing.hear(name)
            finally:
                self._listened.discard(name)

        if name not in self._listened:  # One of them is enough, however often it was asked.
            self._listened.add(name)
            self._spawn(task)

    def fence(self, act: FenceNow) -> None:
        """Ask all at once."""
        block = BlockName(self._name, act.number)

        def ask(location: str) -> None:
            try:
                with self._hearing.asked(location):
                    answer = promised(
                        self._around.peers(location), location, block=block, epoch=act.epoch
                    )
            except QuiverError as error:
                self._listen(location)
                self._post(Unanswered(act.epoch, location, error))
            else:
                self._post(Answered(act.epoch, answer))

        for location in act.locations:
            self._hearing.ask(location)
            self._spawn(partial(ask, location))

    def cut(self, act: CutNow) -> None:
        """Have the copies cut; whoever cannot now is told by whoever tends the partition."""
        block = BlockName(self._name, act.number)

        def ask(location: str) -> None:
            with suppress(QuiverError):
                peer = self._around.peers(location)
                if act.sealed.length:
                    peer.cut(block, act.sealed)
                else:
                    peer.drop(block)

        for location in act.sealed.keep:
            self._spawn(partial(ask, location))

    def open(self, route: Route, turn: int) -> None:
        """Open the stream of a block."""

        def acked(ack: Ack) -> None:
            self._hear(turn, ack)

        def task() -> None:
            try:
                stream = self._around.peers(route.chain[0]).stream(
                    route,
                    acked=acked,
                    broken=lambda error: self._post(StreamBroke(turn, error)),
                )
            except QuiverError as error:
                self._post(StreamBroke(turn, error))
            else:
                self._post(Opened(turn, stream))

        self._spawn(task)
        if len(route.chain) > 1:
            self._listen_to_tail(route, turn)

    def _listen_to_tail(
        self, route: Route, turn: int, *, tries: int = _LISTEN_TRIES, seen: int = -1
    ) -> None:
        """Hear from the last node itself what is safe: sooner than by way of all the others.

        It is no more than that: without it, or while it fails, acks come back along the chain.
        """

        def task() -> None:
            left, last = tries, seen
            try:
                for ack in self._around.peers(route.chain[-1]).acks(route.block, route.epoch):
                    if not self._hear(turn, ack, by_tail=True):
                        return
                    if ack.last_seq > last:
                        left, last = _LISTEN_TRIES, ack.last_seq
            except RemoteError:
                pass  # Perhaps it is reached again.
            except QuiverError:
                return  # The block has ended.
            self._around.clock.pause(_LISTEN_SECONDS)
            if left and self._hear(turn, Ack(0, -1)):
                self._listen_to_tail(route, turn, tries=left - 1, seen=last)

        self._spawn(task)

    def again(self, act: ClaimNow | CommitNow | PlaceNow | None) -> None:
        """Have an act tried again, a little later."""
        self.after(Again(act))

    def mend(self, pair: tuple[str, str]) -> None:
        """Let two nodes that did not reach each other be tried again later, each time later yet.

        At once if this loader did not reach the second one either: that node is done without as
        long as it is quiet, and with its links avoided behind that a block has too few copies,
        though all nodes are well again.
        """
        begun_ns = self._around.clock.monotonic_ns()

        def task() -> None:
            self._around.clock.pause(_LISTEN_SECONDS)  # It was asked for its promise by now.
            if not self._hearing.was_away(pair[1], begun_ns):
                with self._lock_of_answers:
                    self._breaks[key := (min(pair), max(pair))] += 1
                    seconds = min(AVOIDED * 2 ** (self._breaks[key] - 1), AVOIDED_MAX)
                self._around.clock.pause(seconds - _LISTEN_SECONDS)
            self._post(Mended(pair))

        self._spawn(task)

    def slow(self, epoch: int) -> None:
        """Say a little later that a claim was waited for."""
        self.after(Slow(epoch))


def _rises(partition: str) -> InputError:
    """Say that no two bundles of a partition have one time: a block that ends so is not sealed."""
    return InputError(
        f"the times of {partition} rise, so its loaders give them",
        hint="is_rising=False is for partitions that began with it",
    )


def _claimed(by: str, takes_over: bool, record: Record) -> Record:  # noqa: FBT001 For partial.
    return claimed(record, by, takes_over=takes_over)
