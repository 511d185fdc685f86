"""``python -m bench.ship_kills``: play it, and end with status 0 only if all is there once."""

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
from bench.ship_kills.judge import Outcome
from bench.ship_kills.rounds import Play, plan

_ROUNDS_OF_A_PLAY = 50


def main() -> int:
    """Run all plays and give the exit status."""
    parser = argparse.ArgumentParser(prog="bench.ship_kills", description=__doc__)
    parser.add_argument("--dir", default="out/ship-kills", help="where to work; emptied before")
    parser.add_argument("--rounds", type=int, default=15, help="how many kills")
    parser.add_argument("--seed", type=int, default=2026, help="decides who is killed when")
    parser.add_argument("--result", help="write the outcome to this Markdown file")
    options = parser.parse_args()
    if missing := seaweed.seaweed_missing():
        print(missing, file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # The server ends with this.
    began = time.monotonic()
    folder = Folder.prepare(options.dir).root
    print("Two writers, a shipper, a producer, a consumer, a sweeper and their server of objects")
    print("keep being killed, and start again; each second play has faults on the line as well.\n")
    outcome, kills, aimed = Outcome(), Counter(), 0
    server = seaweed.SeaweedServer(Path(_made(folder, "server")))
    try:
        for number, play in enumerate(_plays(options, folder, server)):
            rounds = min(options.rounds - number * _ROUNDS_OF_A_PLAY, _ROUNDS_OF_A_PLAY)
            print(f"play {number + 1}", flush=True)
            found = play.run(plan(rounds, play.rng))
            outcome.add(found)
            kills += play.kills
            aimed += play.aimed
            for problem in found.problems:
                print(f"  ! {problem}")
            if not found.problems:
                shutil.rmtree(play.folder)
    finally:
        server.kill()
    shutil.rmtree(os.path.join(folder, "server"))
    report = _report(outcome, kills, aimed=aimed, seconds=time.monotonic() - began)
    print("\n".join(["", *report]))
    if options.result:
        _write(options, report, is_exact=not outcome.problems)
    return 1 if outcome.problems else 0


def _plays(options, folder, server):
    """Make the plays, one after the other; each second one has faults on the line."""
    for number in range(-(-options.rounds // _ROUNDS_OF_A_PLAY)):
        yield Play(
            os.path.join(folder, f"play-{number + 1}"),
            server,
            random.Random(f"{options.seed} {number}"),
            spoilt=bool(number % 2) or options.rounds <= _ROUNDS_OF_A_PLAY,
            tell=lambda text: print(text, flush=True),
        )


def _made(folder: str, name: str) -> str:
    path = os.path.join(folder, name)
    os.makedirs(path)
    return path


def _report(outcome: Outcome, kills: Counter, *, aimed: int, seconds: float) -> list[str]:
    each = ", ".join(f"{count} {name}" for name, count in sorted(kills.items()))
    lines = [
        f"  bundles appended to stores  {outcome.bundles:>9,}  {outcome.segments:,} segments",
        f"  records acknowledged        {outcome.acknowledged:>9,}",
        f"  records in the sink         {outcome.records:>9,}  the rest was under way in a kill",
        f"  calls that nobody knew of   {outcome.unclear:>9,}  in the sink once or not at all",
        f"  calls that were made again  {outcome.made_again:>9,}",
        f"  batches                     {outcome.batches:>9,}",
        f"  entries that came again     {outcome.repeats:>9,}  passed over by the consumer",
        f"  batches swept               {outcome.swept:>9,}",
        f"  kills survived              {kills.total():>9,}  {each}",
        f"  of these in a request       {aimed:>9,}",
        f"  lost, twice, out of order, deleted too early, left over: {len(outcome.problems)}",
        f"  {seconds:,.0f} seconds",
    ]
    return lines + [f"  ! {problem}" for problem in outcome.problems]


def _write(options: argparse.Namespace, report: list[str], *, is_exact: bool) -> None:
    verdict = "each is there once" if is_exact else "NOT each is there once"
    where = machine()
    with open(options.result, "w", encoding="utf-8") as file:
        print("# All who use a queue, and its server, killed at random\n", file=file)
        print(
            f"{where['date']}, {where['cores']} cores, {where['memory_gib']} GiB, load "
            f"{where['load']} at the end. `make ship-kills ROUNDS={options.rounds}`, seed "
            f"{options.seed}: two writers of a store, its\nshipper, a producer of records, a "
            "consumer that keeps rows and sequence in one transaction, a sweeper, and "
            "SeaweedFS\nbetween them. What takes minutes, the grace and how late an upload may be, "
            "takes seconds here. A kill is\nSIGKILL to one of these, at any moment or while a "
            "request is held on its way; some consumers only sleep until another\none has taken "
            f"over, and wake up. In every second play of {_ROUNDS_OF_A_PLAY} kills, 4 % of all "
            "requests are spoilt as well: lost,\nmissed, 500, 503, cut, late. In the end what the "
            f"sink holds is compared with what was\nappended and acknowledged: **{verdict}**.\n",
            file=file,
        )
        print("```", file=file)
        print("\n".join(report), file=file)
        print("```", file=file)


if __name__ == "__main__":
    sys.exit(main())
