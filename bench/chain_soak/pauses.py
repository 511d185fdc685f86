"""What loaders said of their acks, and how long nothing was acknowledged behind each fault."""

from __future__ import annotations

import os
import statistics
import threading
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final

from bench.chain_soak.settings import LIFE

__all__ = ["GOAL", "Acks", "Stills", "longest", "table"]

GOAL: Final = 1.5
_NS: Final = 1e9
_TICK: Final = 0.05
_STILL: Final = 0.4


class Acks:
    """The log of a partition's loaders, read as it grows."""

    def __init__(self, path: str) -> None:
        """Take the log; it may not be there yet."""
        self._path = path
        self._offset = 0
        self._rest = b""
        self.times: list[int] = []
        """When more was acknowledged, by the monotonic clock."""
        self.acked: dict[int, int] = {}
        """The last number of each life that was acknowledged."""
        self.sent: dict[int, int] = {}
        self.lost: list[str] = []
        """Loaders that ended though nobody asked for it."""
        self.opened: dict[int, int] = {}

    def look(self) -> None:
        """Read what came since."""
        if not os.path.exists(self._path):
            return
        with open(self._path, "rb") as file:
            file.seek(self._offset)
            data = file.read()
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(line.decode().split(maxsplit=3))

    def _take(self, words: Sequence[str]) -> None:
        word, number = words[0], int(words[1])
        if word == "acked":
            self.times.append(int(words[2]))
            self.acked[number // LIFE] = max(number, self.acked.get(number // LIFE, number))
        elif word == "sent":
            self.sent[number // LIFE] = number
        elif word == "open":
            self.opened[number] = int(words[2])
        elif word in ("fenced", "lost"):
            self.lost.append(f"life {number} {word}: {' '.join(words[3:])}")


class Stills:
    """When this process itself was not let on: what others waited for then says nothing."""

    def __init__(self) -> None:
        """Begin to watch."""
        self._spans: list[tuple[int, int]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="soak stills", daemon=True)
        self._thread.start()

    def reach_into(self, begun_ns: int, over_ns: int) -> bool:
        """Whether there was one in a span, or just behind it."""
        late = over_ns + int(GOAL * _NS)
        return any(begun <= late and over >= begun_ns for begun, over in self._spans)

    def close(self) -> None:
        """Watch no more."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        before = time.monotonic_ns()
        while not self._over.wait(_TICK):
            now = time.monotonic_ns()
            if now - before > _STILL * _NS:
                self._spans.append((before, now))
            before = now


def longest(times: Sequence[int], begun_ns: int, over_ns: int) -> float:
    """Give the longest time without an ack that lies in a span, or reaches into it; seconds."""
    place = max(bisect_right(times, begun_ns) - 1, 0)
    found = 0
    while place + 1 < len(times) and times[place] <= over_ns:
        found = max(found, times[place + 1] - times[place])
        place += 1
    return found / _NS


def table(pauses: Mapping[str, Sequence[float]]) -> list[str]:
    """Give lines of a Markdown table, a kind each."""
    lines = [
        "| fault | where | times | median | 90 % | longest | within 1.5 s |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for name in sorted(pauses):
        took = sorted(pauses[name])
        kind, _, place = name.partition("|")
        most = took[min(len(took) * 9 // 10, len(took) - 1)]
        within = sum(each <= GOAL for each in took)
        lines.append(
            f"| {kind} | {place} | {len(took)} | {statistics.median(took):.2f} s | {most:.2f} s "
            f"| {took[-1]:.2f} s | {within} of {len(took)} |"
        )
    return lines
