"""A pipeline that runs: stores are recovered, exporters go on, then receivers open.

It ends the other way round: receivers answer what is in work and close, what is open becomes
segments, exporters go on until all is delivered or the time is up, stores close. Whatever ends it
otherwise, what was acknowledged is in a store, and what was not acked there comes again.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, Self

import quiver.engine
from quiver.clock import Clock, SystemClock, processor_ns
from quiver.disk import LocalDisk
from quiver.engine import Store
from quiver.engine.core import core_numbers
from quiver.errors import (
    CapacityError,
    InputError,
    LockedError,
    MissingError,
    QuiverError,
    StorageError,
)
from quiver.otel.delivery import Delivery, Policy, Pressure, Straight
from quiver.otel.nodes import Exporter, Intake
from quiver.otel.pipeline.blame import blamed
from quiver.otel.pipeline.chain import Chain, steps_of
from quiver.otel.pipeline.leftovers import Leftover, find_leftovers
from quiver.otel.pipeline.parts import Feed, Listening, Parts
from quiver.otel.pipeline.plan import Node, Plan
from quiver.otel.pipeline.routes import StoreIntake
from quiver.otel.pipeline.status import NodeStatus, counts_of, histograms_merged
from quiver.otel.pipeline.wiring import intake_of, straight_exporters, wants_arrow
from quiver.otel.signals import TELEMETRY
from quiver.units import SECOND

__all__ = ["Leftover", "Pipeline", "Share"]

_GRACE_MAX: Final = 10.0
"""Seconds that requests in work are waited for at the end."""
_LAST_WAIT: Final = 2.0
"""Seconds that deliveries have to end in once their time is up, all of them together."""
_EVER: Final = 1e9
"""Seconds, which is thirty years."""


@dataclass(frozen=True, slots=True)
class Share:
    """Which of several processes of one pipeline this is."""

    number: int = 0
    count: int = 1

    def cores(self, path: str) -> list[int]:
        """Give the cores of a store that are its own: one to write, and what others left.

        Cores beyond the count were written by more processes than there are now. They are opened
        too, for what is in them is still to be delivered.
        """
        found: list[int] = []
        with suppress(MissingError):
            disk = LocalDisk(path)
            found = core_numbers(disk)
            disk.close()
        others = [n for n in found if n >= self.count and n % self.count == self.number]
        return [self.number, *others]


@dataclass(slots=True)
class _Running:
    """A delivery, and the thread that does it."""

    node: Node
    delivery: Delivery
    thread: threading.Thread


class Pipeline:
    """One process of a pipeline; ``start`` it, and ``stop`` it in the end.

    ``share`` says which of several processes of the pipeline this is; each has a core of each store
    for itself.
    """

    def __init__(
        self, plan: Plan, parts: Parts, *, share: Share | None = None, clock: Clock | None = None
    ) -> None:
        """Nothing is opened yet."""
        self.plan = plan
        self.leftovers: tuple[Leftover, ...] = ()
        self.passed_over: tuple[str, ...] = ()
        """Cores of its stores that others write: what is in them is not delivered from here."""
        self._parts = parts
        self._share = share or Share()
        self._clock = clock or SystemClock()
        self._stores: dict[str, list[Store]] = {}
        self._deliveries: list[_Running] = []
        self._straights: dict[str, Straight] = {}
        self._listening: dict[str, Listening] = {}
        self._steps = steps_of(plan.nodes)
        self._state = "it is about to start"
        self._is_draining = self._ended = False

    # start ---------------------------------------------------------------------------------------

    def start(self, *, receive: bool = True) -> None:
        """Recover the stores, let exporters go on, and open the receivers unless told not to.

        Raises what opening a store raises, and InputError if a receiver cannot listen; all that was
        opened is closed then.
        """
        try:
            ends: dict[str, Intake] = {}
            for node in self.plan.stores:
                ends[node.name] = self._open_store(node)
            for node in straight_exporters(self.plan):
                straight = Straight(
                    node.name,
                    self._exporter(node, Feed(self._share.number)),
                    clock=self._clock,
                )
                ends[node.name] = self._straights[node.name] = straight
            self.leftovers = tuple(find_leftovers(self.plan, self._stores))
            for running in self._deliveries:
                running.thread.start()
            for node in self.plan.of_role("receiver") if receive else ():
                intake = intake_of(
                    self.plan, node.name, ends=ends, steps=self._steps, codec=self._parts.codec
                )
                arrow = wants_arrow(self.plan, node.name)
                with blamed(self.plan, node):
                    opened = self._parts.listen(node, intake, wants_arrow=arrow)
                self._listening[node.name] = opened
        except BaseException:
            self._state = "it did not start"
            self.stop(0.0)
            raise
        self._state = "" if receive else "it takes nothing in"

    def drain(self) -> None:
        """Let each exporter end as soon as it has everything that the stores have."""
        self._is_draining = True
        for running in self._deliveries:
            running.delivery.stop(_EVER)

    @property
    def is_drained(self) -> bool:
        """Whether all of them have ended since."""
        return self._is_draining and not any(each.thread.is_alive() for each in self._deliveries)

    def _open_store(self, node: Node) -> Intake:
        loaded = node.store
        if loaded is None or loaded.path is None:
            raise InputError(f"nodes.{node.name}: it has no path")
        stores = self._stores.setdefault(node.name, [])
        intake: StoreIntake | None = None
        for core in self._share.cores(loaded.path):
            try:
                with blamed(self.plan, node):
                    store = quiver.engine.open(
                        loaded.path, slots=TELEMETRY, config=loaded, core=core, clock=self._clock
                    )
            except LockedError as error:
                if intake is None:
                    raise
                self.passed_over += (str(error),)
                continue
            stores.append(store)
            with suppress(CapacityError, StorageError):  # It waits for its age then.
                store.finalize()  # What was in the log alone is delivered now.
            deliveries = [self._delivery(store, node, place) for place in range(self._width(node))]
            if intake is None:
                wait_seconds = node.options["wait_for_room"] / SECOND
                intake = StoreIntake(store, wait_seconds=wait_seconds)
                intake.followers = tuple(deliveries)
        if intake is None:
            raise InputError(f"nodes.{node.name}: it has no core")
        return intake

    def _width(self, node: Node) -> int:
        return len(self.plan.outlets[node.name])

    def _delivery(self, store: Store, node: Node, place: int) -> Delivery:
        outlet = self.plan.outlets[node.name][place]
        target = self.plan.nodes[outlet.exporter]
        exporter = self._exporter(target, Feed(store.core, store.info().store_id))
        chain = Chain([self._steps[name] for name in outlet.processors], self._parts.codec)
        delivery = Delivery(
            store.subscribe(target.name),
            exporter,
            clock=self._clock,
            convert=chain.convert if outlet.processors else None,
            finish=store.finalize,
            early=partial(store.ack_early, target.name),
            pressure=Pressure(self._clock, processor_ns),
            policy=Policy(
                retry_first=target.options["retry.initial_interval"],
                retry_max=target.options["retry.max_interval"],
            ),
        )
        name = f"quiver-{target.name}-{store.core}"
        thread = threading.Thread(target=delivery.run, name=name, daemon=True)
        self._deliveries.append(_Running(target, delivery, thread))
        return delivery

    def _exporter(self, node: Node, feed: Feed) -> Exporter:
        with blamed(self.plan, node):
            return self._parts.exporter(node, feed)

    # while it runs -------------------------------------------------------------------------------

    @property
    def addresses(self) -> Mapping[str, Sequence[str]]:
        """Where each receiver listens."""
        return {name: tuple(each.addresses) for name, each in self._listening.items()}

    @property
    def stores(self) -> Mapping[str, Sequence[Store]]:
        """The open stores by node; the first of each is the one that is written."""
        return {name: tuple(stores) for name, stores in self._stores.items()}

    @property
    def failure(self) -> QuiverError | None:
        """What made it impossible to go on, if anything did; the process is to end then."""
        for running in self._deliveries:
            if running.delivery.failure is not None:
                return running.delivery.failure
            is_to_go_on = running.thread.ident is not None and not self._is_draining
            if is_to_go_on and not self._ended and not running.thread.is_alive():
                return QuiverError(f"the exporter {running.node.name} has ended by itself")
        for stores in self._stores.values():
            for store in stores:
                try:
                    store.check_usable()
                except QuiverError as error:
                    return None if self._ended else error
        return None

    def not_ready(self) -> str:
        """Say why nothing can be sent here now; empty if it can."""
        if self._state:
            return self._state
        return "a store has stopped" if self.failure is not None else ""

    def status(self) -> list[NodeStatus]:
        """Say how each node is, in the order of the file."""
        return [self._status_of(node) for node in self.plan.nodes.values()]

    def _status_of(self, node: Node) -> NodeStatus:
        if node.role == "receiver":
            listening = self._listening.get(node.name)
            if listening is None:
                return NodeStatus(node.name, node.role, node.kind)
            metrics = listening.metrics
            return NodeStatus(
                node.name,
                node.role,
                node.kind,
                tuple(listening.addresses),
                counts_of(metrics),
                dict(listening.gauges()),
                {} if metrics is None else metrics.read_histograms(),
            )
        if node.role == "exporter":
            return self._status_of_exporter(node)
        if node.is_store:
            return NodeStatus(node.name, node.role, node.kind)
        counts = counts_of(self._steps[node.name].metrics)
        return NodeStatus(node.name, node.role, node.kind, counts=counts)

    def _status_of_exporter(self, node: Node) -> NodeStatus:
        straight = self._straights.get(node.name)
        if straight is not None:
            metrics = straight.report.metrics
            return NodeStatus(
                node.name,
                node.role,
                node.kind,
                counts=counts_of(metrics),
                histograms=metrics.read_histograms(),
            )
        total: dict[str, int] = {}
        held = offered = blocked = 0
        problem = ""
        for running in self._deliveries:
            if running.node.name != node.name:
                continue
            delivery = running.delivery
            for name, value in counts_of(delivery.report.metrics).items():
                total[name] = total.get(name, 0) + value
            held += delivery.held_batches
            offered += delivery.offered_batches
            blocked = max(blocked, int(delivery.is_blocked))
            problem = problem or ("" if delivery.failure is None else str(delivery.failure))
        gauges = {
            "quiver.exporter.held_batches": held,
            "quiver.exporter.offered_batches": offered,
            "quiver.exporter.blocked": blocked,
        }
        return NodeStatus(
            node.name,
            node.role,
            node.kind,
            counts=total,
            gauges=gauges,
            histograms=histograms_merged(
                each.delivery.report.metrics.read_histograms()
                for each in self._deliveries
                if each.node.name == node.name
            ),
            problem=problem,
        )

    # stop ----------------------------------------------------------------------------------------

    def stop(self, drain_seconds: float | None = None) -> int:
        """End in good order, within ``drain_seconds`` or what the file says; a second call is free.

        Gives the number of exporters that had not delivered everything by then. What they have not
        is in the stores.
        """
        if self._ended:
            return 0
        self._ended = True
        self._state = self._state or "it is about to end"
        limit = self.plan.drain_timeout_ns / SECOND if drain_seconds is None else drain_seconds
        until_ns = self._clock.monotonic_ns() + int(limit * SECOND)
        try:
            self._parts.close(min(limit, _GRACE_MAX))
            for stores in self._stores.values():
                for store in stores:
                    # What cannot become a segment now stays in the log.
                    with suppress(QuiverError):
                        store.finalize()
            late = self._end_deliveries(until_ns)
        finally:
            self._close()
        return late

    def _end_deliveries(self, until_ns: int) -> int:
        alive = [each for each in self._deliveries if each.thread.ident is not None]
        for running in alive:
            running.delivery.stop(self._rest(until_ns))
        last_ns = max(until_ns, self._clock.monotonic_ns()) + int(_LAST_WAIT * SECOND)
        for running in alive:
            running.thread.join(self._rest(last_ns))
        late = sum(running.thread.is_alive() for running in alive)
        for stores in self._stores.values():
            for store in stores:
                with suppress(QuiverError):
                    late += sum(lag.bundle_count > 0 for lag in store.lags())
        return late

    def _rest(self, until_ns: int) -> float:
        return max(until_ns - self._clock.monotonic_ns(), 0) / SECOND

    def _close(self) -> None:
        """Let go of everything; the first thing that fails is raised behind the last one."""
        failed: list[Exception] = []
        for straight in self._straights.values():
            straight.close()
        for running in self._deliveries:
            if running.thread.ident is None:
                running.delivery.close()
        for stores in self._stores.values():
            for store in stores:
                try:
                    store.close()
                except QuiverError as error:
                    failed.append(error)
        if failed:
            raise failed[0]

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self.stop()
