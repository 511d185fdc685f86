"""``python -m bench.upsert_kills``: play it, and end with status 0 only if nothing is wrong."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from pathlib import Path

from bench.demo.folder import Folder
from bench.kills.servers import seaweed
from bench.kit import machine
from bench.upsert_kills.judge import Outcome
from bench.upsert_kills.rounds import Play, plan

_ROUNDS_OF_A_PLAY = 25


def main() -> int:
    """Run all plays and give the exit status."""
    parser = argparse.ArgumentParser(prog="bench.upsert_kills", description=__doc__)
    parser.add_argument("--dir", default="out/upsert-kills", help="where to work; emptied before")
    parser.add_argument("--rounds", type=int, default=30, help="how many kills")
    parser.add_argument("--seed", type=int, default=2026, help="decides who is killed when")
    parser.add_argument("--result", help="write the outcome to this Markdown file")
    options = parser.parse_args()
    if missing := seaweed.seaweed_missing():
        print(missing, file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # The server ends with this.
    began = time.monotonic()
    folder = Folder.prepare(options.dir).root
    print(
        "Who writes a collection, who reads and who follows it, and its server keep being killed,"
    )
    print("and start again; each second play is in a folder, each fourth has faults on the line.\n")
    outcome, kills, aimed = Outcome(), Counter(), 0
    place = os.path.join(folder, "server")
    os.makedirs(place)
    server = seaweed.SeaweedServer(Path(place))
    try:
        for number, play in enumerate(_plays(options, folder, server)):
            rounds = min(options.rounds - number * _ROUNDS_OF_A_PLAY, _ROUNDS_OF_A_PLAY)
            print(f"play {number + 1}, {_where(play)}", flush=True)
            found = play.run(plan(rounds, play.rng, has_server=play.server is not None))
            outcome.add(found)
            kills += play.kills
            aimed += play.aimed
            for problem in found.problems:
                print(f"  ! {problem}")
            if not found.problems:
                shutil.rmtree(play.folder)
    finally:
        server.kill()
    shutil.rmtree(place)
    report = _report(outcome, kills, aimed=aimed, seconds=time.monotonic() - began)
    print("\n".join(["", *report]))
    if options.result:
        _write(options, report, is_exact=not outcome.problems)
    return 1 if outcome.problems else 0


def _plays(options, folder, server):
    """Make the plays, one after the other: server, folder, server with faults, folder."""
    for number in range(-(-options.rounds // _ROUNDS_OF_A_PLAY)):
        yield Play(
            os.path.join(folder, f"play-{number + 1}"),
            None if number % 2 else server,
            random.Random(f"{options.seed} {number}"),
            spoilt=number % 4 == 2,
            tell=lambda text: print(text, flush=True),
        )


def _where(play: Play) -> str:
    if play.server is None:
        return "in a folder"
    return "in a server" + (", with faults on the line" if play.spoilt else "")


def _report(outcome: Outcome, kills: Counter, *, aimed: int, seconds: float) -> list[str]:
    each = ", ".join(f"{count} {name}" for name, count in sorted(kills.items()))
    lines = [
        f"  epochs appended             {outcome.epochs:>9,}",
        f"  of these by who died of it  {outcome.unsaid:>9,}  killed before he could say so",
        f"  states read                 {outcome.reads:>9,}  as of any epoch that can be read",
        f"  of these come to by changes {outcome.steps:>9,}",
        f"  folds, merges of runs       {outcome.folded:>9,}  {outcome.merged:,} merges",
        f"  writers fenced              {outcome.fenced:>9,}",
        f"  kills survived              {kills.total():>9,}  {each}",
        f"  of these in an act          {aimed:>9,}",
        f"  lost, twice, never so, gone too early, left over: {len(outcome.problems)}",
        f"  {seconds:,.0f} seconds",
    ]
    return lines + [f"  ! {problem}" for problem in outcome.problems]


def _write(options: argparse.Namespace, report: list[str], *, is_exact: bool) -> None:
    verdict = "all of it was" if is_exact else "NOT all of it was"
    where = machine()
    with open(options.result, "w", encoding="utf-8") as file:
        print(
            "# All who use a collection of upserts, and its server, killed at random\n", file=file
        )
        print(
            f"{where['date']}, {where['cores']} cores, {where['memory_gib']} GiB, load "
            f"{where['load']} at the end. `make upsert-kills ROUNDS={options.rounds}`, seed "
            f"{options.seed}: a writer that\nlooks up, appends and tends, one who reads as of any "
            "epoch, one who follows the changes, by turns in SeaweedFS\nand in a folder. The grace "
            "is seconds here, and limits are so low that something is due all the time. A kill\nis "
            "SIGKILL to one of these, at any moment, or while a request is held on its way or an "
            "act of the disk is about to\nbe done; some writers only sleep until another one has "
            f"taken over, and wake up. In every fourth play of {_ROUNDS_OF_A_PLAY}\nkills, 4 % of "
            "all requests are spoilt as well: lost, missed, 500, 503, cut, late. What was read as "
            "of each epoch\nis compared with a dictionary that had done the commands of all "
            f"epochs up to it: **{verdict} equal**.\n",
            file=file,
        )
        print("```", file=file)
        print("\n".join(report), file=file)
        print("```", file=file)


if __name__ == "__main__":
    sys.exit(main())
