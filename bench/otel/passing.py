"""The same pipeline with a store in the middle and without: what passes, and what it costs."""

from __future__ import annotations

import statistics
import time
from typing import Final, NamedTuple

from bench.kit import Bench, warm
from bench.otel.pipelines import Running, running
from bench.otel.requests import log_request
from bench.otel.senders import push
from bench.otel.sink import SinkClient, sink_process

__all__ = ["passing"]

WANTED: Final = 1.05
SHAPES: Final = (("gRPC", 1_000, 600_000), ("HTTP", 1_000, 600_000), ("gRPC", 8_192, 800_000))
"""The protocol of the sender, records of a request, and records of a round."""


class Passed(NamedTuple):
    """One round of one side."""

    seconds: float
    cpu: float
    records: int
    again: int


class _Side:
    def __init__(self, pipeline: Running, sink: SinkClient) -> None:
        self._pipeline, self._sink = pipeline, sink

    def pass_on(self, protocol: str, records: int, total: int) -> Passed:
        """Send until all are taken, and have come to the sink."""
        template, count = log_request(records), max(total // records, 24)
        self._sink.take()
        cpu, begun = self._pipeline.cpu(), time.perf_counter()
        again = push(protocol, self._pipeline.address(protocol), template, 0, count)
        came = self._sink.wait(count)
        took = time.perf_counter() - begun
        assert came == count, f"{came} of {count} requests came"
        return Passed(took, self._pipeline.cpu() - cpu, count * records, again)


STORES: Final = {"kept": {}, "as Arrow": {"otlp_handling": "convert_to_arrow"}}


def passing(bench: Bench) -> None:
    """Measure all shapes, sides in turn."""
    how = {"max_concurrent_requests": 64}
    with sink_process() as sink:
        straight = running(bench.folder, "straight", sink.port, store=None, **how)
        kept = running(bench.folder, "kept", sink.port, store=STORES["kept"], **how)
        arrow = running(bench.folder, "arrow", sink.port, store=STORES["as Arrow"], **how)
        with straight as a, kept as b, arrow as c:
            sides = {"straight": _Side(a, sink), "kept": _Side(b, sink), "arrow": _Side(c, sink)}
            for protocol, records, total in SHAPES:
                _shape(bench, sides, protocol, (records, int(total * bench.scale)))


def _shape(bench: Bench, sides: dict[str, _Side], protocol: str, sizes: tuple[int, int]) -> None:
    records, total = sizes
    warm(bench.folder)
    found: dict[str, list[Passed]] = bench.interleave(
        **{
            name: lambda side=side: side.pass_on(protocol, records, total)
            for name, side in sides.items()
            if name != "arrow" or protocol == "gRPC"
        }
    )
    for name, words, wanted in (
        ("kept", "with a store", ("at most", WANTED)),
        ("arrow", "with a store that has Arrow", None),
    ):
        if name in found:
            _row(
                bench,
                f"{protocol}, requests of {records:,} log records: {words}",
                found,
                name,
                wanted,
            )


def _row(
    bench: Bench, told: str, found: dict[str, list[Passed]], name: str, wanted: object
) -> None:
    ours, plain = found[name], found["straight"]
    bench.add(
        f"{told}, by the same without",
        [each.seconds for each in ours],
        [each.seconds for each in plain],
        wanted=wanted,
        records_a_second=_median(each.records / each.seconds for each in ours),
        records_a_second_without=_median(each.records / each.seconds for each in plain),
        cpu_us_for_each_record=_median(each.cpu / each.records * 1e6 for each in ours),
        cpu_us_without=_median(each.cpu / each.records * 1e6 for each in plain),
        sent_again=sum(each.again for each in ours),
    )


def _median(values: object) -> float:
    return statistics.median(values)
