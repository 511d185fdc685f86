"""Ten times as much as the sink takes: memory, what senders are told, and what is lost."""

from __future__ import annotations

import statistics
import time
from typing import Any, Final, NamedTuple

from bench.kit import Bench
from bench.otel.pipelines import Running, running
from bench.otel.requests import log_request
from bench.otel.senders import Paced
from bench.otel.sink import SinkClient, sink_process

__all__ = ["overload"]

RECORDS: Final = 500
TAKEN_A_SECOND: Final = 40
"""Requests that the sink takes; ten times as many are sent."""
TIMES: Final = 10
SECONDS: Final = 15
MIB: Final = 1 << 20
STORE: Final[dict[str, Any]] = {
    "segment": {"target_size": "4MiB"},
    "wal": {"max_size": "16MiB"},
    "limits": {"entry_bytes": "8MiB"},
    "retention": {"size_cap": "48MiB", "size_cap_policy": "backpressure"},
}
REQUEST_MEMORY: Final = "64MiB"
"""The budget of receivers; with 64 requests of up to 4 MiB it would be 512 MiB."""
LONGER: Final = 4
FLAT: Final = 1.1
"""It goes up and down with Python's collector and what allocators keep."""


class Flood(NamedTuple):
    """What one overload came to."""

    before: int
    middle: float
    """Memory in the second third of the overload."""
    last: float
    at_most: int
    """Until all was drained."""
    sent: int
    taken: int
    refused: int
    full: int
    lost: int
    twice: int
    seconds_to_drain: float
    samples: list[tuple[float, int]]


def flood(bench: Bench, name: str, seconds: float) -> Flood:
    """Overload a new pipeline, then let the sink take all."""
    how = {"max_concurrent_requests": 64, "service": {"request_memory": REQUEST_MEMORY}}
    with (
        sink_process() as sink,
        running(bench.folder, name, sink.port, store=STORE, **how) as pipeline,
    ):
        return _flood(pipeline, sink, seconds)


def _flood(pipeline: Running, sink: SinkClient, seconds: float) -> Flood:
    paced = Paced(pipeline.grpc, log_request(RECORDS))
    paced.run(0, 40, 2 * TAKEN_A_SECOND)  # All that is loaded late is loaded.
    assert sink.wait(len(paced.taken)) == len(paced.taken)
    paced.refused = 0
    sink.pace(TAKEN_A_SECOND)
    samples: list[tuple[float, int]] = []
    full: list[int] = []
    before, begun = pipeline.memory(), time.monotonic()

    def look() -> None:
        samples.append((time.monotonic() - begun, pipeline.memory()))
        if paced.full and not full:
            full.append(len(samples) - 1)

    wanted = int(seconds * TIMES * TAKEN_A_SECOND)
    sent = third = 0
    # A busy machine sends more slowly: it is to be full from the first third on.
    while not full or full[0] >= third:
        assert sent <= LONGER * wanted, "the store became full too late: nothing was shown"
        more = wanted // 2 if sent else wanted
        paced.run(40 + sent, more, TIMES * TAKEN_A_SECOND, look=look)
        look()
        sent, third = sent + more, len(samples) // 3
    sink.pace(0)
    began = time.monotonic()
    sink.wait(len(paced.taken))
    drained = time.monotonic() - began
    came = [number for number, _ in sink.take().tolist()]
    paced.close()
    assert not paced.failed, paced.failed[:3]
    return Flood(
        before=before,
        middle=statistics.median(memory for _, memory in samples[third : 2 * third]),
        last=statistics.median(memory for _, memory in samples[2 * third :]),
        at_most=pipeline.memory("VmHWM"),
        sent=sent,
        taken=len(paced.taken),
        refused=paced.refused,
        full=paced.full,
        lost=len(set(paced.taken) - set(came)),
        twice=len(came) - len(set(came)),
        seconds_to_drain=drained,
        samples=samples,
    )


def overload(bench: Bench) -> None:
    """Overload one pipeline after the other."""
    seconds = max(SECONDS * bench.scale, 12)
    floods = [flood(bench, f"flood-{number}", seconds) for number in range(min(bench.rounds, 3))]
    bench.more["memory_in_overload"] = [
        [round(at, 2), round(memory / MIB, 1)] for at, memory in floods[-1].samples
    ]
    middle = statistics.median
    bench.add(
        f"{TIMES} times what the sink takes for {seconds:g} seconds or more: "
        "memory in the last third, by that in the second",
        [each.last for each in floods],
        [each.middle for each in floods],
        wanted=("at most", FLAT),
        MiB_at_most=middle(each.at_most / MIB for each in floods),
        MiB_in_the_last_third=middle(each.last / MIB for each in floods),
        MiB_before=middle(each.before / MIB for each in floods),
    )
    bench.add(
        "requests that were taken and did not come, by those taken",
        [each.lost for each in floods],
        [each.taken for each in floods],
        wanted=("at most", 0.0),
        requests_sent=middle(each.sent for each in floods),
        taken=middle(each.taken for each in floods),
        told_to_come_again=middle(each.refused for each in floods),
        of_them_for_the_cap=middle(each.full for each in floods),
        came_twice=sum(each.twice for each in floods),
        seconds_to_drain=middle(each.seconds_to_drain for each in floods),
    )
