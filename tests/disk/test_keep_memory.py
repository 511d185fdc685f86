"""Memory of a process of our own stays its own."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from quiver.disk import keep_memory

_COUNT = """
import resource
import sys
import pyarrow as pa
from quiver.disk import keep_memory

if sys.argv[1] == "kept":
    keep_memory(128 << 20)
pool = pa.system_memory_pool()
faults = []
for _ in range(60):
    room = [pa.allocate_buffer(1 << 20, memory_pool=pool) for _ in range(64)]
    for each in room:
        memoryview(each).cast("B")[:: 1 << 12] = bytes(1 << 8)
    del room, each
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
print(faults[-1] - faults[20])
"""
"""Messages of a mebibyte, as many as are under way, written to and let go of."""
_LITTLE = 100


def _faults(how: str) -> int:
    """Count them; the least of three, for the system may have taken memory back meanwhile."""
    command = [sys.executable, "-c", _COUNT, how]
    return min(
        int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(3)
    )


def test_messages_come_into_memory_that_those_before_them_had() -> None:
    if _faults("as it is") <= _LITTLE:
        pytest.skip("the C library of this machine keeps memory by itself: nothing can be shown")
    assert _faults("kept") <= _LITTLE


def test_nothing_happens_where_nobody_can_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("quiver.disk.calls"), "_libc", object())
    keep_memory(1 << 20)
