"""The picture of a chain in the README: ``make top-picture`` writes ``bench/top_chain.svg``.

Four nodes with disks of 40 MB, three partitions of two copies each. ``quiver chain top`` looks on;
near the end one of the nodes is killed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pyarrow as pa

from quiver.chain.cluster import connect
from quiver.chain.loading import Loader, LoaderRules
from quiver.errors import QuiverError

__all__ = ["main"]

PICTURE = Path(__file__).with_name("top_chain.svg")
NODES = ("n1", "n2", "n3", "n4")
RULES = LoaderRules(rf=2, soft_bytes=1_000_000)
STEP = 0.05
LAST = 2.0
"""So many seconds before the end a node is killed."""


def start(folder: str, name: str) -> subprocess.Popen[bytes]:
    """Start a node, and wait until it serves."""
    paths = [str(PICTURE.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    command = [sys.executable, "-m", "quiver", "node", "--name", name, "--dir", name]
    process = subprocess.Popen(
        [*command, "--metadata", "meta", "--capacity", "40MB", "--audit-every", "1s"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    if process.stdout is None or not process.stdout.readline():
        sys.exit(f"{name} did not start")
    return process


def write(loader: Loader, size: int, over: threading.Event) -> None:
    """Send bundles of a size again and again, whatever becomes of the nodes."""
    number = 0
    while not over.wait(STEP):
        batch = pa.record_batch({"n": [number], "text": ["x" * size]})
        try:
            loader.send({"events": batch}, timeout=1)
        except QuiverError:
            continue
        number += 1


def draw(out: Path, seconds: float) -> None:
    """Have nodes and loaders at work in a folder of its own, and a picture made of it."""
    over = threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        running = [start(folder, name) for name in NODES]
        killer = threading.Timer(max(seconds - LAST, 0.5), running[-1].kill)
        threads: list[threading.Thread] = []
        try:
            with connect(str(Path(folder) / "meta")) as cluster:
                loaders = [
                    cluster.loader(name, ["events"], rules=RULES)
                    for name in ("clicks", "orders", "traces")
                ]
                for loader, size in zip(loaders, (4_000, 12_000, 25_000), strict=True):
                    threads.append(threading.Thread(target=write, args=(loader, size, over)))
                    threads[-1].start()
                killer.start()
                top = [sys.executable, "-m", "quiver", "chain", "top", "--metadata", "meta"]
                top += ["--svg", str(out.absolute()), "--for", f"{seconds}s"]
                subprocess.run([*top, "--interval", "500ms"], cwd=folder, check=True)
                over.set()
                for thread in threads:
                    thread.join()
                for loader in loaders:
                    loader.abandon()
        finally:
            over.set()
            killer.cancel()
            for process in running:
                process.kill()
                process.communicate()


def main() -> None:
    """Draw it."""
    parser = argparse.ArgumentParser(prog="python -m bench.top_chain", description=__doc__)
    parser.add_argument("--seconds", type=float, default=25)
    parser.add_argument("--out", type=Path, default=PICTURE)
    given = parser.parse_args()
    draw(given.out, given.seconds)
    print(f"wrote {given.out}")


if __name__ == "__main__":
    main()
