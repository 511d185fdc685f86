"""``make bench-otel``: what telemetry costs, and what a store in the middle of a pipeline does.

Writes ``bench/OTEL.md``, ``bench/otel.json`` and ``bench/otel.svg`` unless ``--try`` is given.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

from bench.kit import Bench, run_parts
from bench.otel.costs import FEW, RECORDS, costs
from bench.otel.latency import A_SECOND, latency
from bench.otel.overload import STORE, TAKEN_A_SECOND, TIMES, overload
from bench.otel.passing import passing
from bench.otel.requests import BODY_BYTES
from bench.otel.senders import CONNECTIONS, CONSUMERS, IN_FLIGHT

TITLE: Final = "Telemetry: reading and keeping it, and a store in the middle of a pipeline"
LIBRARIES: Final = ("grpcio", "protobuf", "opentelemetry-sdk")
NOTES: Final = f"""
![the way to the sink, and memory in an overload](otel.svg)

## How it is measured

Requests are what the SDK of OpenTelemetry encodes: log records with five attributes, a body of
{BODY_BYTES} bytes and the ids of a span; spans with five attributes and an event; points of a
counter and of a gauge. Each has a number of its own in its first item, by which the sink knows it;
what is around the items is the same in each, as that of one sender is. The sink is a server of gRPC
in a process of its own that answers at once. Sender, `quiver run` and sink share the same cores.

- *Of one core*: {RECORDS:,} records of one round, in one thread, into a new store on the disk with
  a sync at the end and all of it in segments; what is told is records by the processor's time of
  the whole process, so what the store does in threads of its own is in it. Decoded telemetry is
  `otlp_handling: convert_to_arrow`, what is kept as it came `pass_through`. Decoded, small requests
  that come while a receiver is at others become one batch, which is measured with {FEW} records
  each; one of them that comes alone costs what the row below it says.
- *With a store, by the same without*: one file of a pipeline for `quiver run` with the persistence
  node between receiver and exporter, and without that node; over gRPC {CONNECTIONS} connections
  with {IN_FLIGHT} calls under way on each, over HTTP {CONSUMERS} with one on each, as the sending
  queue of a collector has that many consumers. With {CONNECTIONS} over HTTP all of them often wait
  for the same sync, which the row without a goal tells. The time is that from the first request
  to the last one in the sink, all of them acknowledged. Without a store the answer of the
  sink is what the sender waits for; with it a sync of the disk, and the sink is fed beside. Both
  sides send on requests as they came and check them once; with a store the exporter keeps up, so
  that requests are written to the log, and to no segment.
- *The way to the sink*: {A_SECOND} requests a second over gRPC, each sent when its time is there,
  whatever became of the others.
- *Overload*: the sink takes {TAKEN_A_SECOND} requests a second and {TIMES} times as many are
  sent, into a store that may have {STORE["retention"]["size_cap"]}; senders do not try again. Then
  the sink takes as many as come, and what was acknowledged is looked for in it. Memory is all that
  the process has resident, mapped segments too.
"""


def draw(bench: Bench) -> None:
    """Draw the picture."""
    from bench.otel.plots import draw

    draw(bench)


def about(bench: Bench) -> None:
    """Say what it was measured with, then measure the first part."""
    bench.notes.insert(0, NOTES)
    bench.versions |= {name: version(name) for name in LIBRARIES}
    costs(bench)


ACTS: Final = {"costs": about, "passing": passing, "latency": latency, "overload": overload}

if __name__ == "__main__":
    run_parts("otel", TITLE, ACTS, rounds=5, draw=draw)
