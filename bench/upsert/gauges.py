"""How much memory processes have: what they hold of their own, and what was most."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

__all__ = ["Memory", "forget_most", "memory_of"]


class Memory(NamedTuple):
    """Of one process, in bytes."""

    own: int
    """Not of a file: pages of mapped files go when others want them."""
    resident: int
    most: int
    """The most that was ever resident, mapped files with it."""


def memory_of(pid: int | str = "self") -> Memory | None:
    """Look at a process; None if it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    kilobytes = {
        name: int(rest.split()[0])
        for name, _, rest in (line.partition(":") for line in status.splitlines())
        if name in ("RssAnon", "VmRSS", "VmHWM")
    }
    if len(kilobytes) < 3:  # A process that has ended and was not waited for.
        return None
    own, resident, most = (kilobytes[name] * 1024 for name in ("RssAnon", "VmRSS", "VmHWM"))
    return Memory(own, resident, most)


def forget_most() -> int:
    """Let the most of this process be what it has now; its bytes."""
    Path("/proc/self/clear_refs").write_text("5")
    own = memory_of()
    assert own is not None
    return own.resident
