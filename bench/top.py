"""The picture in the README: ``make top-picture`` writes ``bench/top.svg``.

Two processes write a store, one core each, and three subscribers take from it, one of them in a
process of its own and one that is slow. ``quiver top`` looks on and draws what it sees.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

import quiver

__all__ = ["main"]

PICTURE = Path(__file__).with_name("top.svg")
STORE = "store"
CORES = 2
STEP = 0.05
"""Seconds between two bursts."""
SWING = 8.0
"""Seconds from one peak of the load to the next."""
CONFIG = {"segment": {"max_open_duration": "2s"}}


def until(seconds: float, act: Callable[[int], None]) -> None:
    """Do a thing again and again, a little later each time, for so long."""
    end, number = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        act(number)
        number += 1
        time.sleep(STEP)


def write(core: int, seconds: float) -> None:
    """Append more and less by turns, with a fast and a slow subscriber."""
    with quiver.open(STORE, slots=["events", "errors"], core=core, config=CONFIG) as store:
        fast, slow = store.subscribe("uploader"), store.subscribe("alerts")
        print("ready", flush=True)

        def act(number: int) -> None:
            phase = 2 * math.pi * number * STEP / SWING
            for row in range(3 + round(6 * (1 + math.sin(phase + core)))):
                ids = list(range(row, row + 40))
                text = [f"event {number} of core {core}"] * len(ids)
                store.append({"events": pa.table({"id": ids, "text": text})})
            while (run := fast.poll_run()) is not None:
                run.ack()
            if number % 50 == 9 and (bundle := slow.poll()) is not None:
                bundle.reject("no alert")
            elif (run := slow.poll_run(4)) is not None:
                run.nack(retry_after=3) if number % 40 == 7 else run.ack()

        until(seconds, act)


def take(seconds: float) -> None:
    """Take bundles of all cores, in a process that has no lock."""
    with quiver.subscribe(STORE, "lake") as lake:
        print("ready", flush=True)

        def act(_: int) -> None:
            if (run := lake.poll_run(60)) is not None:
                run.ack()

        until(seconds, act)


def draw(out: Path, seconds: float) -> None:
    """Have all of them at work in a folder of its own, and a picture made of it."""
    with tempfile.TemporaryDirectory() as folder:
        quiver.open(Path(folder) / STORE, slots=["events", "errors"]).close()
        # Nobody stops by itself before the picture is drawn.
        parts = [["write", str(core)] for core in range(CORES)] + [["take", "0"]]
        paths = [str(PICTURE.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        command = [sys.executable, "-m", "bench.top", "--seconds", str(seconds * 3 + 60)]
        pipe = subprocess.PIPE
        running = [
            subprocess.Popen([*command, *part], cwd=folder, stdout=pipe, env=environment)
            for part in parts
        ]
        try:
            for process in running:
                if process.stdout is None or process.stdout.readline() != b"ready\n":
                    sys.exit("one of those that should be drawn did not start")
            top = [sys.executable, "-m", "quiver", "top", STORE, "--svg", str(out.absolute())]
            top += ["--for", f"{seconds}s", "--interval", "500ms", "--cap", "16MiB"]
            subprocess.run(top, cwd=folder, check=True)
        finally:
            for process in running:
                process.terminate()
            for process in running:
                process.communicate()


def main() -> None:
    """Draw, or be one of those that are drawn."""
    parser = argparse.ArgumentParser(prog="python -m bench.top", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--out", type=Path, default=PICTURE)
    parser.add_argument("part", nargs="?", choices=["draw", "write", "take"], default="draw")
    parser.add_argument("core", nargs="?", type=int, default=0)
    given = parser.parse_args()
    if given.part == "write":
        write(given.core, given.seconds)
    elif given.part == "take":
        take(given.seconds)
    else:
        draw(given.out, given.seconds)
        print(f"wrote {given.out}")


if __name__ == "__main__":
    main()
