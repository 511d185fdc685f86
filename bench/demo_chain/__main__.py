"""``python -m bench.demo_chain``: play it; status 0 says that nothing is lost and nothing twice."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from rich.table import Table

import quiver
from bench.demo.compare import compare
from bench.demo.folder import Folder
from bench.demo.screen import Screen
from bench.demo.source import SLOTS, Year, cut, load
from bench.demo_chain.blocks import BlockMap, legend, lines
from bench.demo_chain.journal import noted
from bench.demo_chain.judge import Verdict, judge_copies, judge_counts, pauses, sequenced
from bench.demo_chain.loader import PARTITION, RF
from bench.demo_chain.picture import Happening, draw
from bench.demo_chain.play import KILLS, Play
from quiver.bundle import RecordBundle

_AGAIN: Final = "a second cursor, from the start"
_LIVE: Final = "the live cursor"


def main() -> int:
    """Run the demonstration and give its exit status."""
    parser = argparse.ArgumentParser(prog="bench.demo_chain", description=__doc__)
    parser.add_argument("--dir", default="out/demo-chain", help="where to work; emptied before")
    parser.add_argument("--picture", default="out/block-map.svg", help="the map, as SVG")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # All that was started ends with this.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    began = time.monotonic()
    screen = Screen()
    folder = Folder.prepare(options.dir).root
    screen.say("A year of flights in a partition that outlives its machines", style="bold")
    screen.say("Three nodes have a copy of each block; a loader writes, a live cursor reads.")
    screen.say("Nodes and loader get SIGKILL, one node SIGSTOP; one is lost, a new one comes.\n")
    year = cut(load())
    play = Play(folder, screen.say, count=len(year))
    verdict = Verdict()
    try:
        play.run()
        before = play.before()
        play.ask_spark()
        judge(play, year, verdict)
        after = play.await_restored()
        judge_all_copies(play, verdict)
    finally:
        play.close()
    happened = [Happening(fault.block, fault.what) for fault in play.faults]
    Path(options.picture).parent.mkdir(parents=True, exist_ok=True)
    Path(options.picture).write_text(draw(before, after, happened), encoding="utf-8")
    show_maps(screen, before, after)
    is_good = show(screen, play, verdict)
    screen.say(
        f"{time.monotonic() - began:,.0f} seconds; the map is {options.picture}", style="dim"
    )
    if is_good:
        shutil.rmtree(folder)
    else:
        screen.say(f"what is left is in {folder}")
    return 0 if is_good else 1


def judge_all_copies(play: Play, verdict: Verdict) -> None:
    """Read and compare all copies that there are in the end."""
    copies = play.observer.copies()
    blocks = play.observer.blocks()
    digests = {block.number: block.digest.hex() for block in blocks if block.digest}
    wanted = dict.fromkeys((block.number for block in blocks), RF)
    verdict.problems += judge_copies(copies, wanted, digests)
    if any(copy.form != "segment" for copy in copies):
        verdict.problems.append("a copy is no finished segment")
    play.say(f"{len(copies):,} copies of {len(blocks):,} blocks are read and hashed")


def judge(play: Play, year: Year, verdict: Verdict) -> None:
    """Compare all that came with the year."""
    numbers, again = read_again(play, year, verdict)
    verdict.cursors[_LIVE] = sequenced(noted(play.seen)[:, 0], len(year))
    verdict.cursors[_AGAIN] = sequenced(numbers, len(year))
    acked = sequenced(noted(play.acked)[:, 0], len(year))
    if acked.twice or acked.strange or not acked.is_ordered:
        verdict.problems.append(f"what was acknowledged is not in order: {acked}")
    for name, source in year.tables.items():
        live = quiver.scan(play.store, slot=name).to_table().cast(source.schema)
        verdict.rows[f"{name}, {_LIVE}"] = compare(source, live)
        verdict.rows[f"{name}, {_AGAIN}"] = compare(source, again[name].cast(source.schema))
    with open(play.answer, encoding="utf-8") as file:
        counted = json.load(file)
    carriers = year.tables["flights"]["carrier"].to_pylist()
    verdict.problems += judge_counts(counted, carriers)
    if play.kills != KILLS:
        verdict.problems.append(f"{play.kills} kills of {KILLS}")


def read_again(play: Play, year: Year, verdict: Verdict) -> tuple[list[int], dict[str, Any]]:
    """Read the partition from its start; each bundle is compared with that of the year."""
    numbers: list[int] = []
    found: dict[str, list[Any]] = {slot.name: [] for slot in SLOTS}
    different = 0
    with play.cluster.cursor(PARTITION) as cursor:
        for message in cursor:
            numbers.append(message.wal_seq)
            different += message.wal_seq >= len(year) or not message.bundle.equals(
                RecordBundle(year.bundle(message.wal_seq))
            )
            for name, batch in message.bundle.items():
                found[name].append(batch)
    if different:
        verdict.problems.append(f"{different:,} bundles are not as they were sent")
    play.say("a second cursor has read the partition from its start")
    return numbers, {
        name: pa.Table.from_batches(batches, year.tables[name].schema).combine_chunks()
        for name, batches in found.items()
    }


def show_maps(screen: Screen, before: BlockMap, after: BlockMap) -> None:
    """Print the map before and after."""
    for title, each in (
        ("Before: a node is lost for good", lines(before)),
        ("After: what it had is copied anew", lines(after, before)),
    ):
        screen.say(f"\n{title}", style="bold")
        for line in each:
            screen.say(f"  {line}")
    screen.say(f"\n  {legend()}", style="dim")


def show(screen: Screen, play: Play, verdict: Verdict) -> bool:
    """Print what was compared, and what is wrong if something is; say whether nothing is."""
    table = Table(title="Bundles and rows, against the year", title_justify="left")
    table.add_column("")
    for heading in ("sent", "came", "lost", "twice", "differ"):
        table.add_column(heading, justify="right")
    for name, one in verdict.cursors.items():
        sent = one.came - one.twice - one.strange + one.lost
        counts = sent, one.came, one.lost, one.twice, one.strange
        table.add_row(f"bundles, {name}", *(f"{count:,}" for count in counts))
    for name, rows in verdict.rows.items():
        counts = rows.rows_in, rows.rows_out, rows.lost, rows.duplicates, rows.foreign
        table.add_row(name, *(f"{count:,}" for count in counts))
    screen.say()
    screen.console.print(table)
    acked, seen = noted(play.acked), noted(play.seen)
    longest = pauses(acked[:, 1], [fault.at_ns for fault in play.faults])
    for fault, seconds in zip(play.faults, longest, strict=True):
        screen.say(f"  {fault.what:<26} acks paused for {seconds:.2f} s")
    screen.say(f"  {lag(acked, seen)}")
    problems = verdict.all_problems
    for problem in problems:
        screen.say(f"WRONG: {problem}", style="bold red")
    if not problems:
        bundles = len(np.unique(acked[:, 0]))
        screen.say(
            f"{bundles:,} bundles were acknowledged: lost 0, twice 0, all in order; Spark counts "
            f"the same, all copies are equal, {play.kills} kills survived.",
            style="bold green",
        )
    return not problems


def lag(acked: Any, seen: Any) -> str:
    """Say how far the live cursor was behind what the loader knew."""
    both, first, second = np.intersect1d(acked[:, 0], seen[:, 0], return_indices=True)
    behind = (seen[second, 1] - acked[first, 1]) / 1e6
    return (
        f"the live cursor had a bundle {np.median(behind):+.1f} ms from when the loader noted its "
        f"ack (median of {len(both):,}; 99 of 100 within {np.percentile(behind, 99):.0f} ms)"
    )


if __name__ == "__main__":
    sys.exit(main())
