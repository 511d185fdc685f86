"""The same pipeline with a store in the middle and without: what passes, and what it costs."""

from __future__ import annotations

import statistics
import time
from typing import Final, NamedTuple

from bench.kit import Bench, warm
from bench.otel.pipelines import Running, running
from bench.otel.requests import log_request
from bench.otel.senders import CONNECTIONS, CONSUMERS, push
from bench.otel.sink import SinkClient, sink_process

__all__ = ["passing"]

WANTED: Final = 1.05


class Shape(NamedTuple):
    """What is sent, and how."""

    protocol: str
    connections: int
    records: int
    """Of one request."""
    total: int
    """Records of one round."""
    is_goal: bool = True
    """Not where the sender has so few requests under way that it waits for a sync each time."""


SHAPES: Final = (
    Shape("gRPC", CONNECTIONS, 1_000, 600_000),
    Shape("HTTP", CONSUMERS, 1_000, 600_000),
    Shape("HTTP", CONNECTIONS, 1_000, 600_000, is_goal=False),
    Shape("gRPC", CONNECTIONS, 8_192, 800_000),
)


class Passed(NamedTuple):
    """One round of one side."""

    seconds: float
    cpu: float
    records: int
    again: int


class _Side:
    def __init__(self, pipeline: Running, sink: SinkClient) -> None:
        self._pipeline, self._sink = pipeline, sink

    def pass_on(self, shape: Shape, scale: float) -> Passed:
        """Send until all are taken, and have come to the sink."""
        protocol, template = shape.protocol, log_request(shape.records)
        count = max(int(shape.total * scale) // shape.records, 24)
        address = self._pipeline.address(protocol)
        self._sink.take()
        cpu, begun = self._pipeline.cpu(), time.perf_counter()
        again = push(protocol, address, template, count, connections=shape.connections)
        came = self._sink.wait(count)
        took = time.perf_counter() - begun
        assert came == count, f"{came} of {count} requests came"
        return Passed(took, self._pipeline.cpu() - cpu, count * shape.records, again)


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
            for shape in SHAPES:
                _shape(bench, sides, shape)


def _shape(bench: Bench, sides: dict[str, _Side], shape: Shape) -> None:
    warm(bench.folder)
    found: dict[str, list[Passed]] = bench.interleave(
        **{
            name: lambda side=side: side.pass_on(shape, bench.scale)
            for name, side in sides.items()
            if name != "arrow" or shape.protocol == "gRPC"
        }
    )
    told = f"{shape.protocol}, {shape.connections} connections, {shape.records:,} log records each"
    wanted = ("at most", WANTED) if shape.is_goal else None
    _row(bench, f"{told}: with a store", found, "kept", wanted)
    if "arrow" in found:
        _row(bench, f"{told}: with a store that has Arrow", found, "arrow", None)


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
