"""A test that is over time and does not end even so ends its process, and says where it hangs.

A timeout is an exception in the test. What the test then closes may wait as well, for ever, and so
would whoever runs it. The watch is a thread of C, which needs nobody's lock. A process that was
started for a block is waited for at the block's end by Python itself: one that an exception leaves
it by is killed first. And a fork that is left at the end of all is killed too: it would keep open
what whoever runs the tests reads to its end.

In a child that was forked nothing is collected: objects of other tests are in it whose libraries
wait, as they go, for threads that are not. A client of Flight did so for ever.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import subprocess
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

import pytest

__all__ = ["GRACE"]

GRACE: Final = float(os.environ.get("QUIVER_HANG_SECONDS", "60"))
"""Seconds that a test has to end in, once it is over time, and so has the process behind all."""

_stderr: list[int] = []
_wait_for = subprocess.Popen.__exit__


def pytest_configure() -> None:
    """Keep the place where the terminal is, or whoever collects: nothing is captured yet."""
    _stderr.append(os.dup(2))
    subprocess.Popen.__exit__ = _end  # type: ignore[method-assign]
    os.register_at_fork(after_in_child=gc.disable)


def _end(
    process: subprocess.Popen[bytes],
    kind: type[BaseException] | None,
    error: BaseException | None,
    trace: TracebackType | None,
) -> None:
    if kind is not None:
        process.kill()
    _wait_for(process, kind, error, trace)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Watch one test with all that is made and undone for it."""
    seconds = _timeout(item)
    if seconds:
        faulthandler.dump_traceback_later(seconds + GRACE, exit=True, file=_stderr[0])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def pytest_unconfigure() -> None:
    """Watch the end of the process: its threads are joined, and libraries undo what they did."""
    faulthandler.dump_traceback_later(GRACE, exit=True, file=_stderr[0])
    own = Path("/proc/self/cmdline").read_bytes()
    for child in _children():
        with suppress(ProcessLookupError, FileNotFoundError):  # It ends just now.
            line = Path(f"/proc/{child}/cmdline").read_bytes()
            if line == own:  # Programs, as Spark's Java, end with this process.
                os.kill(child, signal.SIGKILL)
                text = b"a forked process was left, and is killed: %.200b\n"
                os.write(_stderr[0], text % line.replace(b"\0", b" "))


def _children() -> Iterator[int]:
    for thread in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            yield from map(int, (thread / "children").read_text().split())


def _timeout(item: pytest.Item) -> float:
    """How many seconds a test may take; 0 for any."""
    mark = item.get_closest_marker("timeout")
    if mark is not None and mark.args:
        return float(mark.args[0])
    told = item.config.getoption("timeout")
    return float(item.config.getini("timeout") if told is None else told)
