"""Without a store: who sends waits until every exporter has answered."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from quiver.clock import Clock
from quiver.errors import CapacityError, InputError, QuiverError
from quiver.metrics import Metrics
from quiver.otel.batch import Batch
from quiver.otel.delivery.delivery import Convert
from quiver.otel.delivery.report import Report
from quiver.otel.nodes import Delivered, Exporter, Outcome, Refused, Retry
from quiver.otel.signals import Signal

__all__ = ["Straight"]


@dataclass(slots=True)
class _Waiting:
    """A batch of one of the threads that wait."""

    batch: Batch
    outcome: Outcome | None = None


class Straight:
    """An intake that hands batches to one exporter and returns with its answer.

    Many threads may call it; what they bring meanwhile goes together in the next call.
    """

    def __init__(
        self,
        name: str,
        exporter: Exporter,
        *,
        clock: Clock,
        convert: Convert | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        """Take an exporter over."""
        self.name = name
        self.report = Report(name, metrics)
        self._exporter = exporter
        self._clock = clock
        self._convert = convert
        self._turn = threading.Lock()
        self._lock = threading.Lock()
        self._waiting: list[_Waiting] = []

    def take(self, signal: Signal, batches: Sequence[Batch]) -> None:  # noqa: ARG002 Each batch says it.
        """Return when the other side accepted all batches.

        Raises CapacityError if it may be tried again: also of what was accepted then. InputError
        if some will never be taken; they are counted, and told of.
        """
        mine = [_Waiting(left) for batch in batches if (left := self._left(batch)) is not None]
        with self._lock:
            self._waiting += mine
        while any(each.outcome is None for each in mine):
            with self._turn:
                self._send()
        for each in mine:
            if isinstance(each.outcome, Retry):
                raise CapacityError(f"{self.name}: {each.outcome.reason}", hint="send it again")
        for each in mine:
            if isinstance(each.outcome, Refused):
                raise InputError(f"{self.name}: {each.outcome.reason}")

    def _left(self, batch: Batch) -> Batch | None:
        left = batch if self._convert is None else self._convert(batch)
        count = 0 if left is None else left.items
        self.report.dropped(batch, batch.items - count)
        return left if count else None

    def _send(self) -> None:
        with self._lock:
            width = self._exporter.gather.batches
            group, self._waiting = self._waiting[:width], self._waiting[width:]
        if not group:
            return  # Somebody else had it sent meanwhile.
        outcomes: Sequence[Outcome] = [Retry("the exporter failed")] * len(group)
        begun = self._clock.monotonic_ns()
        try:
            delivered = [Delivered(each.batch, None) for each in group]
            outcomes = self._exporter.export(delivered)
            self.report.told(delivered, outcomes, took_ns=self._clock.monotonic_ns() - begun)
        except QuiverError as error:
            outcomes = [Retry(str(error))] * len(group)
        finally:
            for each, outcome in zip(group, outcomes, strict=True):
                each.outcome = outcome

    def close(self) -> None:
        """Close the exporter."""
        with self._turn:
            self._exporter.close()
