"""What a process took, by what Linux says of it: this one, or a server."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

__all__ = ["Taken", "forget_peak", "peak", "resident", "spent"]


class Taken(NamedTuple):
    """CPU seconds of all threads, and bytes of files that it made the kernel write."""

    cpu: float
    written: int

    def __add__(self, other: object) -> Taken:
        assert isinstance(other, Taken)
        return Taken(self.cpu + other.cpu, self.written + other.written)

    def __sub__(self, other: Taken) -> Taken:
        return Taken(self.cpu - other.cpu, self.written - other.written)


def _field(pid: int, file: str, name: str) -> int:
    text = Path(f"/proc/{pid}/{file}").read_text()
    return int(text.split(f"{name}:", 1)[1].split(None, 1)[0])


def spent(*pids: int) -> Taken:
    """Add up what processes have taken so far."""
    taken = Taken(0.0, 0)
    for pid in pids:
        cpu = time.clock_gettime((~pid << 3) | 2)  # The clock of that process: see clock_getres(2).
        taken += Taken(cpu, _field(pid, "io", "write_bytes"))
    return taken


def forget_peak() -> None:
    """Begin the peak of this process afresh."""
    Path(f"/proc/{os.getpid()}/clear_refs").write_text("5")


def peak(pid: int) -> int:
    """Give the most bytes that were resident."""
    return 1024 * _field(pid, "status", "VmHWM")


def resident(pid: int) -> int:
    """Give the bytes that are resident now."""
    return 1024 * _field(pid, "status", "VmRSS")
