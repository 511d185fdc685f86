"""``python -m bench.demo_otel``: play it; status 0 says that nothing is lost."""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import time

from rich.table import Table

from bench.demo.folder import Folder
from bench.demo.screen import Screen
from bench.demo_otel.judge import Verdict, judge
from bench.demo_otel.page import write_page
from bench.demo_otel.parquet import line_numbers
from bench.demo_otel.play import Play, Plot


def main() -> int:
    """Run the demonstration and give its exit status."""
    parser = argparse.ArgumentParser(prog="bench.demo_otel", description=__doc__)
    parser.add_argument("--dir", default="out/demo-otel", help="where to work; emptied before")
    parser.add_argument("--lines", type=int, default=Plot.lines, help="how many are logged")
    parser.add_argument("--kills", type=int, default=Plot.kills, help="how often Quiver is killed")
    parser.add_argument("--result", default="", help="a page to write the counts to")
    options = parser.parse_args()
    plot = Plot(options.lines, Plot.seconds * options.lines / Plot.lines, options.kills)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # All that was started ends with this.
    began = time.monotonic()
    screen = Screen()
    folder = Folder.prepare(options.dir).root
    screen.say("A log through two collectors that no one here wrote", style="bold")
    screen.say(
        "otelcol-contrib tails it; quiver run keeps it, writes Parquet, and gives it to rotel."
    )
    screen.say(f"Quiver gets SIGKILL {plot.kills} times; rotel is away for a while.\n")
    play = Play(folder, screen.say, plot)
    play.run()
    with open(play.answer, encoding="utf-8") as file:
        answer = json.load(file)
    sinks = {"Parquet": line_numbers(play.parquet), "the second collector": play.sunk()}
    verdict = judge(plot.lines, sinks, answer)
    verdict.problems += play.refused()
    if play.kills != plot.kills:
        verdict.problems.append(f"{play.kills} kills of {plot.kills}")
    show(screen, play, verdict)
    seconds = time.monotonic() - began
    screen.say(f"{seconds:,.0f} seconds", style="dim")
    if options.result:
        write_page(options.result, verdict, f"{play.kills} SIGKILLs, {seconds:,.0f} seconds")
    if verdict.is_good:
        shutil.rmtree(folder)
    else:
        screen.say(f"what is left is in {folder}")
    return 0 if verdict.is_good else 1


def show(screen: Screen, play: Play, verdict: Verdict) -> None:
    """Print what was counted, and what is wrong if something is."""
    table = Table(title="Lines of the log", title_justify="left")
    table.add_column("")
    for heading in ("logged", "there", "lost", "came again"):
        table.add_column(heading, justify="right")
    for name, found in verdict.found.items():
        again = found.came - found.different - found.strange
        counts = verdict.lines, found.different, verdict.lines - found.different, again
        table.add_row(name, *(f"{count:,}" for count in counts))
    screen.say()
    screen.console.print(table)
    screen.say(
        "What comes again is what a sender sent again because its answer died with Quiver: "
        "OTLP allows that."
    )
    for problem in verdict.problems:
        screen.say(f"WRONG: {problem}", style="bold red")
    if verdict.is_good:
        screen.say(f"No line is lost; {play.kills} kills survived.", style="bold green")


if __name__ == "__main__":
    sys.exit(main())
