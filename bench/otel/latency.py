"""How long a request is on its way from the sender to the sink: with a store, and without."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator, Mapping
from typing import Any, Final

from bench.kit import Bench, p99, quantile
from bench.otel.pipelines import Running, running
from bench.otel.requests import log_request
from bench.otel.senders import Paced
from bench.otel.sink import SinkClient, sink_process

__all__ = ["latency"]

RECORDS: Final = 100
A_SECOND: Final = 200
REQUESTS: Final = 600
"""Of one round of each side: three seconds."""
FLUSH_MS: Final = 25
WANTED_MS: Final = FLUSH_MS + 10
STORES: Final[Mapping[str, Mapping[str, Any]]] = {
    durability: {"wal": {"flush_interval": f"{FLUSH_MS}ms", "durability": durability}}
    for durability in ("sync", "interval")
}


class _Side:
    def __init__(self, pipeline: Running, sink: SinkClient) -> None:
        self._sink = sink
        self._paced = Paced(pipeline.grpc, log_request(RECORDS))

    def way(self, requests: int) -> list[float]:
        """Send so many; milliseconds of each from its sending to the sink."""
        paced = self._paced
        paced.sent_ns.clear()
        self._sink.take()
        paced.run(0, requests, A_SECOND)
        assert not paced.failed, paced.failed[:3]
        assert not paced.refused, f"{paced.refused} of {requests} were refused"
        came = self._sink.wait(requests)
        assert came == requests, f"{came} of {requests} requests came"
        return [(at - paced.sent_ns[number]) / 1e6 for number, at in self._sink.take().tolist()]

    def close(self) -> None:
        self._paced.close()


@contextlib.contextmanager
def _sides(bench: Bench, sink: SinkClient) -> Iterator[dict[str, _Side]]:
    with contextlib.ExitStack() as stack:
        sides = {}
        for name, store in (("straight", None), *STORES.items()):
            how = running(
                bench.folder, f"way-{name}", sink.port, store=store, max_concurrent_requests=512
            )
            sides[name] = _Side(stack.enter_context(how), sink)
            stack.callback(sides[name].close)
        yield sides


def latency(bench: Bench) -> None:
    """Measure both durabilities and the way without, in turn."""
    requests = max(int(REQUESTS * bench.scale), 100)
    with sink_process() as sink, _sides(bench, sink) as sides:
        found: dict[str, list[list[float]]] = bench.interleave(
            **{name: lambda side=side: side.way(requests) for name, side in sides.items()}
        )
    plain = [p99(way) for way in found["straight"]]
    bench.more["ways_ms"] = {
        name: [
            round(quantile([each for way in ways for each in way], share / 1000), 3)
            for share in range(0, 1000, 5)
        ]
        for name, ways in found.items()
    }
    for name in STORES:
        ways = found[name]
        late = [p99(way) for way in ways]
        bench.add(
            f"99th percentile of the way to the sink, {A_SECOND} requests of {RECORDS} a second, "
            f"durability {name}: what the store adds, by flush_interval and 10 ms",
            [
                max(with_store - without, 0.0)
                for with_store, without in zip(late, plain, strict=True)
            ],
            [WANTED_MS] * len(late),
            wanted=("at most", 1.0),
            ms_with=statistics.median(late),
            ms_without=statistics.median(plain),
            ms_half_with=statistics.median(quantile(way, 0.5) for way in ways),
            ms_half_without=statistics.median(quantile(way, 0.5) for way in found["straight"]),
        )
