"""A store of telemetry in RAM, an exporter that does as a test says, and the loop between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from otlp_sinks import log_texts, logs_batch

import quiver
from quiver.otel.batch import Batch
from quiver.otel.delivery import Delivery
from quiver.otel.exporters.requests import joined
from quiver.otel.nodes import Accepted, Delivered, Gather, Outcome
from quiver.otel.signals import TELEMETRY
from quiver.testing import ManualClock, MemoryDisk

OK = Accepted()


def texts(batch: Batch) -> list[str]:
    return log_texts(joined(batch))


@dataclass
class ScriptedExporter:
    """Answers by a function of the texts of a batch; keeps each call."""

    answer: Callable[[Delivered], Outcome] = lambda _: OK
    gather: Gather = field(default_factory=lambda: Gather(batches=4))
    calls: list[list[Delivered]] = field(default_factory=list)
    during: Callable[[], object] = lambda: None
    closed: int = 0

    @property
    def accepted(self) -> list[str]:
        """What was accepted, in order."""
        return [text for call in self.calls for each in call for text in self._texts(each)]

    def _texts(self, each: Delivered) -> list[str]:
        return texts(each.batch) if self._known.get(id(each)) == OK else []

    def __post_init__(self) -> None:
        self._known: dict[int, Outcome] = {}

    def export(self, delivered: Sequence[Delivered]) -> Sequence[Outcome]:
        self.calls.append(list(delivered))
        self.during()
        outcomes = [self.answer(each) for each in delivered]
        self._known |= {id(e): o for e, o in zip(delivered, outcomes, strict=True)}
        return outcomes

    def close(self) -> None:
        self.closed += 1


class Rig:
    """A store, a clock and one delivery that is stepped by hand."""

    def __init__(self, exporter: Any, disk: MemoryDisk | None = None, **delivery: Any) -> None:
        self.disk = disk or MemoryDisk()
        self.clock = ManualClock()
        self.exporter = exporter
        self.store = quiver.open(
            "memory",
            slots=TELEMETRY,
            core=0,
            disk=self.disk,
            clock=self.clock,
            worker=False,
        )
        self.delivery = Delivery(
            self.store.subscribe("out"), exporter, clock=self.clock, **delivery
        )

    def append(self, *names: str) -> list[int]:
        """Append a bundle for each text."""
        return [self.store.append(logs_batch(name).bundle) for name in names]

    def put(self, *names: str) -> None:
        """Append bundles, and finish their segment."""
        self.append(*names)
        self.store.finalize()

    def finish(self) -> int:
        """Finish the open segment; how many bundles are in it."""
        info = self.store.finalize()
        return 0 if info is None else info.bundle_count

    def steps(self, count: int = 30) -> float | None:
        """Go on until there is something to wait for."""
        for _ in range(count):
            rest = self.delivery.step()
            if rest is None or rest > 0:
                return rest
        return 0.0

    def pass_time(self, seconds: float, count: int = 20) -> None:
        """Let time pass, and go on, so many times at most."""
        for _ in range(count):
            self.clock.step(seconds)
            self.steps()

    def left(self) -> int:
        """How many bundles have no outcome yet."""
        return self.store.lag("out").bundle_count

    def counts(self) -> dict[str, int]:
        """All counters, without their common beginning."""
        found: dict[str, int] = {}
        for (name, _), count in self.delivery.report.metrics.read().items():
            short = name.removeprefix("quiver.exporter.")
            found[short] = found.get(short, 0) + count
        return found


@contextmanager
def rig(exporter: Any, disk: MemoryDisk | None = None, **delivery: Any) -> Any:
    made = Rig(exporter, disk, **delivery)
    try:
        yield made
    finally:
        made.delivery.close()
        made.store.close()
