"""Type-checked and never run: what is passed where a protocol is asked for fits it."""

from __future__ import annotations

from quiver.clock import Clock, SystemClock
from quiver.disk import Disk, File, LocalDisk, Lock
from quiver.testing import ManualClock, MemoryDisk


def clocks() -> list[Clock]:
    return [SystemClock(), ManualClock()]


def disks() -> list[Disk]:
    return [LocalDisk("store"), MemoryDisk()]


def files(local: LocalDisk, memory: MemoryDisk) -> list[File]:
    return [local.open("a"), memory.open("a")]


def locks(local: LocalDisk, memory: MemoryDisk) -> list[Lock]:
    return [local.lock("LOCK"), memory.lock("LOCK")]
