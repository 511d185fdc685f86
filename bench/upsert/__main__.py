"""``make bench-upsert``: upserts with and without Spark against MERGE of delta-rs.

Writes ``bench/UPSERT.md``, ``bench/upsert.json`` and ``bench/upsert.svg`` unless ``--try``.
"""

from __future__ import annotations

from bench.kit import ROOT, Bench, run_parts
from bench.upsert import batches, large
from bench.upsert.load import VALUE_BYTES
from bench.upsert.plots import draw

TITLE = "Upserts, with and without Spark, against MERGE of delta-rs"

NOTES = f"""
![what a batch costs, and what memory does](upsert.svg)

## How it is measured

Keys are eight bytes, values {VALUE_BYTES}. A batch is commands for keys drawn at random, one in
twenty a deletion, five in a hundred for keys that never were: about as many come as go. All sides
take the same batches in turn, another one first each time, and hold the same rows at the end.

- *Spark*: the batch lies in a store as one segment. Its time is Spark's `addBatch`: from reading
  the segment to the manifest that names the new epoch; `whole` is the micro-batch with its planning
  and its log. It is all done in the driver, whose cores are those of Spark's workers here. It is
  tended behind that, before another side has its turn. The JVM has a heap of 1 GiB.
- *Spark as with workers elsewhere*: up to 16 MiB of segments the driver takes by itself, what is
  larger two tasks; a job of two that do nothing is measured too, for that much of it is Spark's.
- *Without Spark*: from the table in memory to the manifest, on all cores. `tended`: with folding
  and merging of files behind it.
- *delta-rs*: MERGE into a table in a folder, of the table in memory, on all cores. It refuses two
  commands for one key, so that who calls it has to find the last one of each first: with that it is
  the last figure of a line, and all ratios are without.
- What ours have written is synced when a batch is done. delta-rs syncs nothing.
- Ours keep what changed at each epoch, so that the collection can be read as it was; delta-rs keeps
  the files of versions before, until they are removed.

Memory is of a process and its threads, pages of mapped files left out where it is compared with
what it was; *most* is the kernel's high-water mark, mapped files with it.
"""


def notes(bench: Bench) -> None:
    """Say how it is measured; first, so that it stands first."""
    bench.notes.insert(0, NOTES)


def picture(bench: Bench) -> None:
    """Draw all that was measured."""
    draw([*batches.panels(bench), *large.panels(bench)], ROOT / "bench" / "upsert.svg")


if __name__ == "__main__":
    run_parts(
        "upsert",
        TITLE,
        {
            "notes": notes,
            "batches": batches.batches,
            "growth": large.growth,
            "initial": large.initial,
        },
        rounds=4,
        draw=picture,
    )
