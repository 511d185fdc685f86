"""``python -m bench.chain_soak``: play it, and end with status 0 only if nothing is wrong."""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import statistics
import sys
import time
from pathlib import Path

from bench.chain_soak.faults import FAULTS
from bench.chain_soak.network import namespaces_missing
from bench.chain_soak.nodes import mount_missing
from bench.chain_soak.pauses import table
from bench.chain_soak.play import Means, Outcome, Play
from bench.chain_soak.settings import etcd_kit
from bench.demo.folder import Folder
from bench.kit import machine

__all__ = ["main", "means_here"]


def means_here(folder: Path, *, real: bool = True) -> tuple[Means, list[str]]:
    """Find out which faults can be made here, and say which cannot."""
    said = []
    no_spaces = namespaces_missing() if real else "they were not wanted"
    if no_spaces:
        said.append(f"LEFT OUT: pairs that are cut, nodes that lose both ways: {no_spaces}")
    if no_mount := mount_missing(folder):
        said.append(f"LEFT OUT: full disks: {no_mount}")
    if no_etcd := etcd_kit.etcd_missing():
        said.append(f"LEFT OUT: metadata that are away: {no_etcd}")
    return Means(not no_spaces, not no_mount, not no_etcd), said


def main() -> int:
    """Play as often as it takes."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # All of it ends with this.
    began = time.monotonic()
    folder = Path(Folder.prepare(options.dir).root)
    means, said = means_here(folder, real=not options.proxies)
    print("\n".join(said), flush=True)
    outcome = Outcome()
    most = options.each
    for number in range(options.first, options.first + max(-(-options.faults // most), 1)):
        rng = random.Random(f"{options.seed} {number}")
        left = options.faults - (number - options.first) * most
        place = folder / f"play-{number}"
        print(f"play {number} of seed {options.seed}", flush=True)
        with Play(place, means, rng, tell=lambda text: print(text, flush=True)) as play:
            found = play.run(min(left, most), kinds=options.kinds)
        outcome.add(found)
        print(f"  copies were whole {found.restored[0]:.1f} s after the end", flush=True)
        for problem in found.problems:
            print(f"  ! play {number}: {problem}", flush=True)
        report = _report(outcome, time.monotonic() - began)
        if options.result:  # After each, in case that this is ended.
            _write(options, said, report, outcome=outcome)
        if not found.problems:
            shutil.rmtree(place)
        elif not options.go_on:
            break
    print("\n".join(["", *report, "", *table(outcome.pauses)]))
    return 1 if outcome.problems else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.chain_soak", description=__doc__)
    parser.add_argument("--dir", default="out/chain-soak", help="where to work; emptied before")
    parser.add_argument("--faults", type=int, default=15, help="how many")
    parser.add_argument("--each", type=int, default=50, help="how many for each cluster")
    parser.add_argument("--seed", type=int, default=2026, help="decides who is struck, and how")
    parser.add_argument("--first", type=int, default=0, help="the play to begin with")
    parser.add_argument("--kinds", nargs="+", choices=FAULTS, help="only these kinds of faults")
    parser.add_argument("--go-on", action="store_true", help="also behind a play that is wrong")
    parser.add_argument("--proxies", action="store_true", help="no namespaces, also where they are")
    parser.add_argument("--result", help="write the outcome to this Markdown file")
    return parser.parse_args()


def _report(out: Outcome, seconds: float) -> list[str]:
    each = ", ".join(f"{count} {name}" for name, count in sorted(out.faults.items()))
    restored = f"{statistics.median(out.restored):.1f} s median, {max(out.restored):.1f} s at most"
    lines = [
        f"  bundles sent                {out.sent:>9,}  by {out.lives} lives of loaders",
        f"  bundles acknowledged        {out.acked:>9,}",
        f"  bundles there               {out.committed:>9,}  the rest was under way in a fault",
        f"  bundles that cursors gave   {out.read:>9,}  each partition is read by two",
        f"  blocks                      {out.blocks:>9,}  {out.copies:,} copies, all compared",
        f"  faults                      {out.faults.total():>9,}  {each}",
        f"  of these two at once        {out.in_pairs:>9,}",
        f"  pauses not counted          {out.stood_still:>9,}  the machine itself stood still",
        f"  all copies there, none left over: {restored} after the end of a play",
    ]
    if out.leases:
        lines.append(
            f"  another node audits {statistics.median(out.leases):.1f} s (median) after the "
            f"auditor was killed, {max(out.leases):.1f} s at most"
        )
    lines += [
        f"  lost, twice, out of order, copies that differ or lack: {len(out.problems)}",
        f"  {seconds:,.0f} seconds",
    ]
    return lines + [f"  ! {problem}" for problem in out.problems]


def _write(
    options: argparse.Namespace, said: list[str], report: list[str], *, outcome: Outcome
) -> None:
    at = machine()
    verdict = "each is there once, in order" if not outcome.problems else "NOT all is well"
    with open(options.result, "w", encoding="utf-8") as file:
        print(
            "# Nodes, loaders, links, disks and metadata of a chain, struck at random\n\n"
            f"{at['date']}, {at['cores']} cores, {at['memory_gib']} GiB, load {at['load']} at the "
            f"end. `make chain-soak FAULTS={outcome.faults.total()}`, seed {options.seed}, plays "
            f"from {options.first} on: four nodes,\neach a process in a network namespace of its "
            "own with TLS where root may make those, one of them on a disk in\nmemory, etcd for "
            "the metadata, two partitions (three and two copies) with a loader process each that "
            "sends\nfifty bundles a second, three live cursors. Each "
            f"{options.each} faults are a play with a cluster of its own; some strike\nwhile "
            "another one lasts. In the end all is taken back, loaders seal, and when each block "
            f"has its copies, all of\nthem are read: **{verdict}**.\n",
            file=file,
        )
        print("\n".join(["```", *said, *report, "```", ""]), file=file)
        print(
            "Longest time without an ack from the fault to its end, of a partition in whose chain "
            "the fault was; of two\nfaults at once all are in one line. The fault before was over "
            "for 0.3 to 1 s: where the block had not all its\ncopies back by then, that is said "
            "instead of the place.\n",
            file=file,
        )
        print("\n".join(table(outcome.pauses)), file=file)


if __name__ == "__main__":
    sys.exit(main())
