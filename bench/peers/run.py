"""One run of one peer, in a process of its own: ``append`` ends by a SIGKILL, ``read`` follows it.

    python -m bench.peers.run append lmdb each --given G --folder F
    python -m bench.peers.run read lmdb each --given G --folder F

Each prints one line of JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any, Final

from bench import kit
from bench.peers import gauges, given
from bench.peers.peer import Bundle, Encoder, Peer
from bench.peers.peers import find
from bench.peers.runs import MARK
from bench.wal.shapes import SLOTS

__all__: list[str] = []

INTERVAL: Final = 0.025
FIRST: Final = 3
"""So many appends make files and warm up; they are not measured."""
LOST: Final = 3
"""So many are on their way when the kill comes."""

_clock = time.perf_counter


class Appends:
    """Appends up to a limit, and when each of them began, returned, and was acked."""

    def __init__(self, peer: Peer, bundles: list[dict[str, Any]]) -> None:
        self.peer, self.bundles = peer, bundles
        self.count = 0
        self.calls: list[float] = []
        self.acks: list[float] = []

    def one(self) -> None:
        self.peer.append(self.bundles[self.count % len(self.bundles)])
        self.count += 1

    def first(self) -> None:
        for _ in range(FIRST):
            self.one()
        self.peer.drain()

    def measured(self, seconds: float, most: int) -> float:
        """Append until the time has passed or there are so many; how long it took in all."""
        peer, begun, acks = self.peer, [], self.acks
        offset, group = peer.acked, peer.mode == "group"
        start = last = synced = _clock()
        while len(begun) < most and last - start < seconds:
            begun.append(last)
            self.one()
            now = _clock()
            self.calls.append(now - last)
            if group and now - synced >= INTERVAL:
                peer.commit()
                now = synced = _clock()
            for at in range(len(acks), peer.acked - offset):
                acks.append(now - begun[at])
            last = now
        peer.drain()
        end = _clock()
        acks.extend(end - begun[at] for at in range(len(acks), peer.acked - offset))
        if len(acks) != len(begun):
            raise AssertionError(f"{len(begun)} appends, {len(acks)} acked")
        return end - start


def rehearse(kind: type[Peer], folder: Path, bundles: list[dict[str, Any]]) -> None:
    """Do everything once in small, for what is imported and made at its first use."""
    if kind.program:
        return  # A client has little of that, and its server none.
    folder.mkdir()
    for again in (False, True):
        peer = kind(folder, "each")
        peer.open()
        if again:
            peer.first()
            counted(peer)
        else:
            peer.append(bundles[0])
            peer.drain()
        peer.close()
    shutil.rmtree(folder)


def marked() -> None:
    """Leave a mark for strace."""
    with contextlib.suppress(OSError):
        os.fsync(MARK)


def told(found: dict[str, Any]) -> None:
    print(json.dumps(found), flush=True)


def append(asked: argparse.Namespace) -> None:
    """Append, tell what it took, append some more, and kill everything in this process group."""
    bundles = given.load(asked.given)
    kind = find(asked.peer)
    byte_count = sum(len(Encoder().encode(bundle)) for bundle in bundles) / len(bundles)
    rehearse(kind, asked.folder / "rehearsal", bundles)
    server = kind.serve(asked.folder)
    peer = kind(asked.folder, asked.mode)
    peer.open()
    peer.ready(bundles, 0 if asked.count else int(asked.bytes))
    gauges.forget_peak()
    before = gauges.resident(os.getpid())
    appends = Appends(peer, bundles)
    appends.first()
    if asked.count:
        count_syncs(appends, asked.count)
        if server is not None:
            server.stop()
        os._exit(0)
    kit.warm(asked.folder, int(2 * asked.bytes))
    pids = [os.getpid(), *([] if server is None else [server.pid])]
    spent = gauges.spent(*pids)
    took = appends.measured(asked.seconds, max(int(asked.bytes / byte_count), 20))
    spent = gauges.spent(*pids) - spent
    megabytes = len(appends.acks) * byte_count / 1e6
    peaks = [gauges.peak(pid) for pid in pids]
    found = {
        "acked": appends.count,
        "bundle_bytes": byte_count,
        "seconds": took,
        "rate": megabytes / took,
        "bundles_per_second": len(appends.acks) / took,
        "cpu_ms_per_mb": 1e3 * spent.cpu / megabytes,
        "written_per_byte": spent.written / megabytes / 1e6,
        "memory_mb": (peaks[0] - before + sum(peaks[1:])) / 1e6,
        "peak_mb": sum(peaks) / 1e6,
    }
    for name, took_each in (("ack", appends.acks), ("call", appends.calls)):
        for share in (0.5, 0.99, 0.999):
            found[f"{name}_{share:g}"] = 1e3 * kit.quantile(took_each, share)
    for _ in range(LOST):
        appends.one()
    told(found | {"appended": appends.count})
    os.killpg(0, signal.SIGKILL)


def count_syncs(appends: Appends, count: int) -> None:
    """Append between two marks."""
    marked()
    for _ in range(count):
        appends.one()
    marked()
    told({})


def read(asked: argparse.Namespace) -> None:
    """Open what the kill left, take the first bundle, then all, then compare them with what was."""
    kind = find(asked.peer)
    bundles = given.load(asked.given)
    rehearse(kind, asked.folder / "rehearsal", bundles)
    begun = _clock()
    server = kind.serve(asked.folder)
    try:
        peer = kind(asked.folder, asked.mode)
        peer.open()
        first = peer.first()
        if not all(first[slot].num_rows for slot in SLOTS):
            raise AssertionError("the first bundle is not whole")
        opened = _clock() - begun
        begun = _clock()
        counted(peer)
        took = _clock() - begun
        compared = given.in_order if kind.exact else given.in_any_order
        found = compared(bundles, peer.read_all())
        told({"opened_ms": 1e3 * opened, "read_seconds": took, "bundles": found})
        peer.close()
    finally:
        if server is not None:
            server.stop()


def counted(peer: Peer) -> dict[str, int]:
    rows = dict.fromkeys(SLOTS, 0)
    bundle: Bundle
    for bundle in peer.read_all():
        for slot, batch in bundle.items():
            rows[slot] += batch.num_rows
    return rows


def main() -> None:
    options = argparse.ArgumentParser(prog="bench.peers.run", description=__doc__)
    options.add_argument("act", choices=("append", "read"))
    options.add_argument("peer")
    options.add_argument("mode", choices=("group", "each"))
    options.add_argument("--given", type=Path, required=True, help="made by given.prepare")
    options.add_argument("--folder", type=Path, required=True, help="of the peer, all its own")
    options.add_argument("--seconds", type=float, default=2.0)
    options.add_argument("--bytes", type=float, default=500e6)
    options.add_argument("--count", type=int, default=0, help="only so many appends, for strace")
    asked = options.parse_args(sys.argv[1:])
    (append if asked.act == "append" else read)(asked)
    os._exit(0)  # Threads that a peer left reading ahead do not always end well.


if __name__ == "__main__":
    main()
