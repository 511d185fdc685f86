"""``make bench-chain``: a chain of three nodes on one machine against one store, and its faults.

Writes ``bench/CHAIN.md``, ``bench/chain.json`` and ``bench/chain.svg`` unless ``--try`` is given.
"""

from __future__ import annotations

import os

from bench.chain.faults import faults
from bench.chain.metadata import metadata
from bench.chain.plots import draw
from bench.chain.tail import tail
from bench.chain.writing import writing
from bench.kit import ROOT, Bench, run_parts

TITLE = "A chain on one machine against one store"
NOTES = """
![throughput, waits, and pauses](chain.svg)

## How it is measured

Nodes are processes of `quiver node`; loader, nodes and the store that it is compared with share one
disk and its cores. Nobody audits while it is written, so that no segment is made in the time of
another measure; the store makes none either.

- *Throughput*: all entries are sent, and the last one is waited for; the store is appended to with
  `wait=False`. The share of one store is its rate by the number of copies, since all lie on this
  disk; a chain whose nodes have a disk each has more.
- *p99*: the next entry is sent when the one before is safe. Of each round by itself, medians of
  those; milliseconds are of all rounds together.
- *Behind the ack*: 200 entries a second; both sides note the same clock, the loader when it was
  told and the cursor when it has decoded. The tail's readers may well be first.
- *Pause*: four nodes, three copies, one entry of 10 KB after the other; the longest wait for one
  behind the fault. Each fault in a partition and with a loader of its own, when all nodes serve. A
  cut link loses bytes silently in both directions, to nodes and loader; metadata are reached.
- *Metadata*: in a folder. A seek is a new client's: it reads the record, and one page of blocks.

## Where a small entry's time goes

Traced on 2026-11-24, 10 KB and three copies, 2.9 ms in the median, by one clock in all processes:

| part | ms |
|---|---:|
| the loader: encode, change to its thread, hand to gRPC | 0.2 |
| from one process to the next, three times: gRPC, waking, reading | 0.10 to 0.15 each |
| each node: looking at it and writing it | 0.10 to 0.14 each |
| each node: its sync | 0.22 to 0.30 each |
| each node but the last: the frame for the next one, handed to gRPC | 0.10 to 0.13 each |
| the ack's way back, three times: change of threads, gRPC, waking, reading | 0.22 to 0.28 each |
| the loader: told, and whoever waits is woken | 0.1 |

A round trip of bare Flight with such a frame, and nothing done at either end, took 0.12 ms in the
median and 0.41 to 0.54 at the 99th percentile, other work beside it; three of them, and three syncs
one behind the other, are a third to half of the whole. A store has one sync and little else: 0.33
and 0.56 ms. Where a sync takes milliseconds the ratio is smaller; that is arithmetic, and was not
measured.

Tried, and not kept. Writing, syncing and passing on in the thread that reads, without a change of
threads: 3.10 instead of 3.45 ms in the median, 5.3 instead of 5.6 at the 99th percentile, eight
runs each in turns. gRPC without its event engine (`GRPC_EXPERIMENTS`): 2.58 instead of 2.75, and
4.3 instead of 4.9, six runs each; what that variable understands changes with gRPC's version.
"""


def noted(bench: Bench) -> None:
    bench.notes.append(NOTES)


ACTS = {each.__name__: each for each in (writing, tail, faults, metadata)}

if __name__ == "__main__":
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    run_parts(
        "chain",
        TITLE,
        ACTS | {"notes": noted},
        rounds=5,
        draw=lambda bench: draw(bench.more, ROOT / "bench" / "chain.svg"),
    )
