"""``python -m bench.demo_upsert``: play it; status 0 says that all is as pandas has it."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time

import pyarrow.parquet as pq
from rich.table import Table

from bench.demo.folder import Folder
from bench.demo.screen import Screen
from bench.demo.source import load
from bench.demo_upsert.board import Board, board
from bench.demo_upsert.judge import CHANGES, STATE, Found, Verdict, judge
from bench.demo_upsert.play import KILLS, Play


def main() -> int:
    """Run the demonstration and give its exit status."""
    parser = argparse.ArgumentParser(prog="bench.demo_upsert", description=__doc__)
    parser.add_argument("--dir", default="out/demo-upsert", help="where to work; emptied before")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # All that was started ends with this.
    began = time.monotonic()
    screen = Screen()
    folder = Folder.prepare(options.dir).root
    screen.say("A year of flights as a board: what each aircraft does on each day", style="bold")
    screen.say(
        "Commands go through a store and Spark into a collection, which takes them as upserts."
    )
    screen.say("Writer, Spark and its Python processes get SIGKILL.\n")
    play = Play(folder, screen.say)
    year = board(load())
    year.save(play.bundles)
    play.run()
    verdict = judge(year, read(play))
    if play.kills != KILLS:
        verdict.problems.append(f"{play.kills} kills of {KILLS}")
    show(screen, play, year, verdict=verdict)
    screen.say(f"{time.monotonic() - began:,.0f} seconds", style="dim")
    if verdict.is_good:
        shutil.rmtree(folder)
    else:
        screen.say(f"what is left is in {folder}")
    return 0 if verdict.is_good else 1


def read(play: Play) -> Found:
    """Read what Spark has read."""
    now, then, changes = (
        pq.read_table(os.path.join(play.answers, name)) for name in ("now", "then", "changes")
    )
    changes = changes.rename_columns({"_time": "time", "_diff": "diff"})
    sides = ((now, STATE), (then, STATE), (changes, CHANGES))
    now, then, changes = (table.select(schema.names).cast(schema) for table, schema in sides)
    return Found(now, then, play.epoch, changes)


def show(screen: Screen, play: Play, year: Board, *, verdict: Verdict) -> None:
    """Print what was compared, and what is wrong if something is."""
    table = Table(title="Rows, by pandas and in the collection", title_justify="left")
    table.add_column("")
    for heading in ("pandas", "collection", "differ", "twice", "lost"):
        table.add_column(heading, justify="right")
    for name, found in verdict.compared.items():
        counts = found.rows_in, found.rows_out, found.foreign, found.duplicates, found.lost
        table.add_row(name, *(f"{count:,}" for count in counts))
    screen.say()
    screen.console.print(table)
    screen.say(
        f"{len(year.commands):,} commands in {len(year.ends):,} bundles became {verdict.epochs} "
        f"epochs; {play.kills} kills survived"
    )
    for problem in [*verdict.problems, *(f.columns for f in verdict.compared.values())]:
        if problem:
            screen.say(f"WRONG: {problem}", style="bold red")
    if verdict.is_good:
        screen.say(
            "Every row is as a group-by of pandas has it, at each epoch.", style="bold green"
        )


if __name__ == "__main__":
    sys.exit(main())
