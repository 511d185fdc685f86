"""What reading, keeping and writing of telemetry costs one thread."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import quiver.engine
from bench.kit import Bench, warm
from bench.otel.requests import Template, log_request, metric_request, span_request
from quiver.otel.batch import Batch
from quiver.otel.otlp import encode
from quiver.otel.pipeline.standard import CODEC
from quiver.otel.signals import TELEMETRY, Signal

__all__ = ["Spent", "costs"]

WANTED: Final = 150_000
SIZES: Final = (8_192, 1_000, 500)
FEW: Final = 100
TOGETHER: Final = 8
"""Requests of so few that a receiver reads at once when they come while it is at others."""
RECORDS: Final = 120_000
"""Of one round of each measure."""


class Spent(NamedTuple):
    """What so many items took."""

    items: int
    seconds: float
    cpu: float
    """Of the whole process, in seconds: what a store does in threads of its own is in it."""


class _Place:
    """Stores to append to, each new and gone again."""

    def __init__(self, bench: Bench) -> None:
        self._folder = bench.folder
        self._number = itertools.count()

    def store(self) -> Any:
        path = self._folder / f"costs-{next(self._number)}"
        config = {"retention": {"size_cap": "1GiB", "size_cap_policy": "drop_oldest"}}
        return quiver.engine.open(path, slots=TELEMETRY, config=config)


def spent(items: int, act: Callable[[], object]) -> Spent:
    cpu, begun = time.process_time(), time.perf_counter()
    act()
    return Spent(items, time.perf_counter() - begun, time.process_time() - cpu)


class _Measures:
    """One kind of requests, and all that is done with them."""

    def __init__(self, place: _Place, signal: Signal, template: Template, records: int) -> None:
        self._place, self._signal = place, signal
        self._count = max(records // template.items, 4)
        self._items = self._count * template.items
        self._requests = [template.numbered(number) for number in range(self._count)]
        self._arrow = [CODEC.decode(signal, request) for request in self._requests[:8]]
        self._otlp = [CODEC.kept(signal, request) for request in self._requests[:8]]

    def _each(self, act: Callable[[bytes], object]) -> Spent:
        def every() -> None:
            for request in self._requests:
                act(request)

        return spent(self._items, every)

    def decode(self) -> Spent:
        return self._each(lambda request: CODEC.decode(self._signal, request))

    def count(self) -> Spent:
        return self._each(lambda request: CODEC.kept(self._signal, request))

    def encode(self) -> Spent:
        turn = itertools.cycle(self._arrow)
        return self._each(lambda _: [encode(batch) for batch in next(turn)])

    def append_arrow(self) -> Spent:
        return self._append(itertools.cycle(self._arrow).__next__)

    def append_otlp(self) -> Spent:
        return self._append(itertools.cycle(self._otlp).__next__)

    def _append(self, batches: Callable[[], Sequence[Batch]]) -> Spent:
        return self._kept(lambda _: batches())

    def convert_to_arrow(self) -> Spent:
        return self._kept(lambda request: CODEC.decode(self._signal, request))

    def pass_through(self) -> Spent:
        return self._kept(lambda request: CODEC.kept(self._signal, request))

    def apart(self) -> Spent:
        return self.convert_to_arrow()

    def together(self) -> Spent:
        starts = range(0, self._count, TOGETHER)
        joined = [b"".join(self._requests[at : at + TOGETHER]) for at in starts]
        return self._kept(lambda request: CODEC.decode(self._signal, request), joined)

    def _kept(
        self, read: Callable[[bytes], Sequence[Batch]], requests: Sequence[bytes] = ()
    ) -> Spent:
        """Append what is made of each request, all durable in the end, as segments."""
        with self._place.store() as store:

            def every() -> None:
                receipts = [
                    store.append(batch.bundle, wait=False)
                    for request in requests or self._requests
                    for batch in read(request)
                ]
                for receipt in receipts:
                    receipt.wait()
                store.finalize()

            return spent(self._items, every)


_TOLD: Final = {
    "convert_to_arrow": "decode and append",
    "pass_through": "check and append as it came",
    "decode": "decode alone",
    "count": "check alone",
    "encode": "encode alone",
    "append_arrow": "append of Arrow alone",
    "append_otlp": "append as it came alone",
}
_GOALS: Final = ("convert_to_arrow", "pass_through")
_FEW: Final = {
    "together": f"decode and append of {TOGETHER} that came together",
    "apart": "decode and append of each by itself",
}


def costs(bench: Bench) -> None:
    """Measure all of it, logs in requests of each size, spans and points in one."""
    place, records = _Place(bench), int(RECORDS * bench.scale)
    for size in SIZES:
        _rows(bench, place, Signal.LOGS, log_request(size), records, _TOLD)
    _rows(bench, place, Signal.LOGS, log_request(FEW), records // 2, _FEW)
    less = {name: told for name, told in _TOLD.items() if name in (*_GOALS, "decode", "encode")}
    _rows(bench, place, Signal.TRACES, span_request(1_000), records // 4, less)
    _rows(bench, place, Signal.METRICS, metric_request(1_000), records // 4, less)


def _rows(
    bench: Bench, place: _Place, signal: Signal, template: Template, records: int, told: Any
) -> None:
    measures = _Measures(place, signal, template, records)
    warm(bench.folder)
    found = bench.interleave(**{name: getattr(measures, name) for name in told})
    items = {Signal.LOGS: "log records", Signal.TRACES: "spans", Signal.METRICS: "points"}[signal]
    for name, words in told.items():
        took: list[Spent] = found[name]
        cpu = [each.items / each.cpu for each in took]
        wall = statistics.median(each.items / each.seconds for each in took)
        is_goal = signal is Signal.LOGS and name in (*_GOALS, "together")
        wanted = ("at least", 1.0) if is_goal else None
        bench.add(
            f"{words}: {items} in requests of {template.items:,}, of one core by {WANTED:,}",
            cpu,
            [WANTED] * len(cpu),
            wanted=wanted,
            a_second_of_cpu=statistics.median(cpu),
            a_second_of_one_thread=wall,
            cpu_us_each=1e6 / statistics.median(cpu),
            bytes_each=len(template.request) / template.items,
        )
