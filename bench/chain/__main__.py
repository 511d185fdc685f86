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
