"""``make bench-chain``: a chain of three nodes on one machine against one store, and its faults.

Writes ``bench/CHAIN.md``, ``bench/chain.json`` and ``bench/chain.svg`` unless ``--try`` is given.
"""

from __future__ import annotations

import os

from bench.chain.bound import bound
from bench.chain.faults import faults
from bench.chain.metadata import metadata
from bench.chain.plots import draw
from bench.chain.tail import tail
from bench.chain.writing import writing
from bench.kit import ROOT, Bench, run_parts
from quiver.chain import use_polling

TITLE = "A chain on one machine against one store"
NOTES = """
![throughput, waits, and pauses](chain.svg)

## How it is measured

Nodes are processes of `quiver node`; loader, nodes and the store that it is compared with share one
disk and its cores. Nobody audits while it is written, so that no segment is made in the time of
another measure; the store makes none either.

- *Throughput*: all entries are sent, and the last one is waited for; the store is appended to with
  `wait=False`. The share of one store is its rate by the number of copies, since all lie on this
  disk; a chain whose nodes have a disk each has more. The goal speaks of a store that waits
  for its disk, which one does on a disk of 200 MB a second, to which the kernel holds the writes of
  those rows. The disk of this machine takes what the other rows say, so that a store waits for its
  processor there, and each entry of a chain takes that of two processes at least (D227).
- *p99*: one behind the other, and then one each 10 ms on either side: a disk that is asked again at
  once answers in half the time, and a store asks three to ten times as often as a chain does. Of
  each round by itself, medians of those; milliseconds are of all rounds together. Ten of each
  side go before: calls are opened for the first one, which is told by itself.
- The loader's process has gRPC wake who waits and no pool before him (`quiver.chain.use_polling`,
  as nodes do by themselves), and so has that of bare Flight.
- *Bare Flight* behind both is what they would take with nothing of a chain around: processes that
  write, sync and pass on, with zeros ahead of small messages; the thread of the last one that syncs
  sends the ack to whoever waits (`bench/chain/bare.py`). Until 2026-11-29 acks came back by all.
- *Behind the ack*: 200 entries a second; both sides note the same clock, the loader when it was
  told and the cursor when it has decoded. The tail's readers may well be first.
- *Pause*: four nodes, three copies, one entry of 10 KB after the other; the longest wait for one
  behind the fault. Each fault in a partition and with a loader of its own, when all nodes serve. A
  cut link loses bytes silently in both directions, to nodes and loader; metadata are reached.
- *Metadata*: in a folder. A seek is a new client's: it reads the record, and one page of blocks.

## Where a small entry's time goes

Traced on 2026-11-28, 10 KB and three copies, one behind the other, by one clock in all processes;
before what D214 tells it took 3.7 ms in the median, behind it 2.6. What D221 tells came later and
took off another quarter; it is in the rows above, and not in this table:

| part | ms before | ms |
|---|---:|---:|
| the loader: encode, change to its thread, hand to gRPC | 0.35 | 0.31 |
| from one process to the next, three times: gRPC, waking | 0.07 each | 0.07 each |
| each node: read, look at, write the frame | 0.17 each | 0.15 each |
| the first node: check the bundle | 0.10 | 0.11 |
| each node: to the thread that syncs | 0.06 each | 0.02 each |
| each node: its sync | 0.21 to 0.27 each | 0.21 to 0.25 each |
| each node but the last: hand a frame to gRPC, by which thread | 0.17 each | 0.12 each |
| the ack's way back | 1.0, by all nodes | 0.34, from the tail |
| the loader: told, and whoever waits is woken | 0.14 | 0.05 |

The same code takes a fifth of this in a loop: processes take turns on two cores, so each finds
neither its memory nor its code in a cache, and a core that slept.

Tried, and not kept. No mark with each sync of a log (D173): a
twentieth less in the median of four runs and nothing at the 99th percentile, and a copy could not
tell rot from a torn end in as much as had no mark. Python's collector off in all processes: no
difference.

Traced again on 2026-11-29 with `perf`, 2,500 entries, 1.70 ms in the median beside it: to the first
node's write 0.43, each sync 0.15, from a sync to the next node 0.05, from there to its write 0.20,
from the last sync to the ack 0.09, and until whoever waits has it 0.21. Of those between the 90th
and the 98th percentile nine in ten are entries behind which all nodes write zeros ahead, one in
twelve, 0.4 ms longer; those above lose it in no one place: another thread was on the processor
where theirs was woken (one in two hundred waits 0.7 ms for the kernel's `kdamond` so).

Behind that came what D231 tells: in turns, 1.60 ms before and 1.41 behind it in the median, 2.46
and 2.26 at the 99th percentile. Nodes that wait for messages themselves are half of it. And then
what D233 tells, acks that the tail's syncing thread writes: 1.36 and 1.30, 2.10 and 1.87; and acks
that go back along the chain with the heartbeats, and a seventh of a node's calls of Python less:
1.42 and 1.40, 2.42 and 2.10, an hour later; and what D235 tells: 1.42 and 1.38, 2.30 and 2.15.
`use_polling` in the loader's process, in turns of five rounds: 1.36 and 1.39, 1.30 and 1.26 in the
median, 4.08 and 3.71, 3.78 and 3.42 times the store's 99th percentile. Whole runs of that day
differ by more than all of that, as the store's 99th percentile does from round to round (0.47 to
0.68 ms): 4.21 with D233 alone, 4.17 before D235, and 4.30, 3.73 and 3.84, one behind the other,
with all of it.

Then D236: nodes sync such an entry side by side. In turns 1.25 and 1.14 in the median, 1.84 and
1.75 at the 99th percentile (ten rounds), 1.28 and 1.13, 1.91 and 1.81 (six). It is meant for disks
that are slower, and one for each node: with 2 ms more for each sync of a node (`os.fdatasync`
behind a pause, the store beside it as well) 8.3 and 3.4 in the median, 9.5 and 4.2 at the 99th
percentile, 2.45 and 2.8 for the store. Three whole runs behind it, one behind the other: 3.24, 3.71
and 3.46 times the store's 99th percentile, no round above 4.00. A live cursor is told with the ack,
and no more a little before it: 0.05 and 0.14 ms.

Tried, a few runs each in turns, and not kept. Zeros by a thread of their own, at once, with a sync,
or 0.4 and 0.8 ms later, and at other places of the log in each node: no better. 512 KiB and 1 MiB
of them at a time: worse at the 99th percentile; 40 MiB, so that all are there before: 6 % better
there, which is all that zeros cost, and 2, 4 and 8 MiB: worse or the same. A head that looks at no
bundle: 7 %, and anybody could write what nobody can read. Entries that are written and synced by
one call (`RWF_DSYNC`), which leaves the mark to the next sync: 2 % in the median, 4 % at the 99th
percentile. gRPC of nodes that polls by `poll` instead of `epoll`: 3 % and nothing. Both cores kept
from sleeping by others: 10 % less in the median, three times as much at the 99th percentile.
"""


def noted(bench: Bench) -> None:
    bench.notes.append(NOTES)


ACTS = {each.__name__: each for each in (writing, bound, tail, faults, metadata)}

if __name__ == "__main__":
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    use_polling()
    run_parts(
        "chain",
        TITLE,
        ACTS | {"notes": noted},
        rounds=5,
        draw=lambda bench: draw(bench.more, ROOT / "bench" / "chain.svg"),
    )
