"""``python -m bench.demo_stream``: play it, and end with status 0 only if the rows are the same."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import time

from bench.demo.folder import Folder
from bench.demo_stream.compare import Outcome
from bench.demo_stream.rounds import Play, plan
from bench.kit import machine


def main() -> int:
    """Run the demonstration and give its exit status."""
    parser = argparse.ArgumentParser(prog="bench.demo_stream", description=__doc__)
    parser.add_argument("--dir", default="out/demo-stream", help="where to work; emptied before")
    parser.add_argument("--rounds", type=int, default=9, help="how many kills")
    parser.add_argument("--seed", type=int, default=2013, help="decides who is killed when")
    parser.add_argument("--result", help="write the outcome to this Markdown file")
    options = parser.parse_args()
    began = time.monotonic()
    folder = Folder.prepare(options.dir).root
    rng = random.Random(options.seed)
    print("Two writers append to a store. A streaming query takes the rows into Parquet, as a")
    print("subscriber. All of them keep being killed, and start again.\n")
    play = Play(os.path.join(folder, "play"), rng, tell=lambda text: print(text, flush=True))
    outcome = play.run(plan(options.rounds, rng))
    seconds = time.monotonic() - began
    for line in _report(play, outcome, seconds=seconds):
        print(line)
    if options.result:
        _write(options, play, outcome, seconds=seconds)
    if outcome.is_exact:
        shutil.rmtree(play.folder)
    else:
        print(f"\nwhat is left is in {play.folder}")
    return 0 if outcome.is_exact else 1


def _report(play: Play, outcome: Outcome, *, seconds: float) -> list[str]:
    kills = ", ".join(f"{count} {name}" for name, count in sorted(play.kills.items()))
    lines = [
        "",
        f"  rows appended   {outcome.rows_in:>12,}",
        f"  rows in Parquet {outcome.rows_out:>12,}",
        f"  differ {outcome.differ}   duplicates {outcome.twice}   lost {outcome.lost}",
        f"  kills survived  {sum(play.kills.values()):>12,}  {kills}",
        f"  query started   {play.query.starts:>12,} times",
        f"  deleted before their commit, or left at the end: {len(outcome.problems)}",
        f"  {seconds:,.0f} seconds",
    ]
    return lines + [f"  ! {problem}" for problem in outcome.problems]


def _write(options: argparse.Namespace, play: Play, outcome: Outcome, *, seconds: float) -> None:
    verdict = "exactly the same" if outcome.is_exact else "NOT the same"
    with open(options.result, "w", encoding="utf-8") as file:
        print("# A streaming query and its writers, killed at random\n", file=file)
        where = machine()
        print(
            f"{where['date']}, {where['cores']} cores, {where['memory_gib']} GiB, load "
            f"{where['load']} at the end. `make spark-kills ROUNDS={options.rounds}`, seed "
            f"{options.seed}: two writers of two cores, a query from the store into "
            "Parquet as a\nsubscriber, in local mode. A kill "
            "is SIGKILL, to a writer, to the driver with its JVM, or to one of Spark's Python "
            "processes.\nIn the end what Parquet holds, by Spark's own log, is compared with what "
            f"was appended, value for value: **{verdict}**.\n",
            file=file,
        )
        print("```", file=file)
        for line in _report(play, outcome, seconds=seconds)[1:]:
            print(line, file=file)
        print("```", file=file)


if __name__ == "__main__":
    sys.exit(main())
