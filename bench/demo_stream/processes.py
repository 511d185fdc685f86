"""Processes that are started, listened to and killed; nothing but what was started here."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

__all__ = ["Actor", "descendants", "kill", "python"]

_ROOT: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_POLL_SECONDS: Final = 0.02


def python(module: str, *arguments: str) -> list[str]:
    """Give the command that runs a module."""
    return [sys.executable, "-m", module, *arguments]


class Actor:
    """One part of the play, as a process that is started again whenever it is gone."""

    def __init__(self, name: str, command: Sequence[str], *, log: str) -> None:
        """Do not start yet; what it says on stderr goes to the file ``log``."""
        self.name, self._command, self._log = name, list(command), log
        self._process: subprocess.Popen[bytes] | None = None
        self.lines: list[str] = []
        self._listener: threading.Thread | None = None
        self.starts = 0

    def start(self) -> None:
        """Start it."""
        self.starts += 1
        self.lines = []
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=log, cwd=_ROOT
            )
        self._listener = threading.Thread(target=self._listen, args=(self._process, self.lines))
        self._listener.start()

    @staticmethod
    def _listen(process: subprocess.Popen[bytes], lines: list[str]) -> None:
        stream: Any = process.stdout
        for raw in stream:
            lines.append(raw.decode(errors="replace").strip())  # noqa: PERF401 Others look at it.

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it is there."""
        return self._process is not None and self._process.poll() is None

    def await_that(self, what: Callable[[], bool], seconds: float) -> bool:
        """Wait until something holds, as long as the process is there; say whether it does."""
        limit = time.monotonic() + seconds
        while not what():
            if time.monotonic() > limit or not self.is_alive:
                return what()
            time.sleep(_POLL_SECONDS)
        return True

    def has_said(self, word: str) -> bool:
        """Whether a line begins with a word."""
        return any(line.startswith(word) for line in self.lines)

    def end(self, seconds: float) -> bool:
        """SIGTERM to it; say whether that ended it within so many seconds."""
        if self._process is None:
            return True
        self._process.terminate()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        self._join()
        return True

    def kill(self) -> None:
        """SIGKILL to it and, at the same moment, to all that it started."""
        if self._process is not None:
            kill(self.pid, *descendants(self.pid))
            self._process.wait()
            self._join()

    def _join(self) -> None:
        if self._listener is not None:
            self._listener.join(10)
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()


def kill(*pids: int) -> None:
    """SIGKILL to processes; those that are gone by now are passed over."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def descendants(pid: int, *, named: str = "") -> list[int]:
    """List the processes below one, whose command line has a word in it."""
    parents: dict[int, list[int]] = {}
    commands: dict[int, str] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    commands[int(name)] = file.read().replace(b"\0", b" ").decode(errors="replace")
                parents.setdefault(parent, []).append(int(name))
    found, waiting = [], [pid]
    while waiting:
        below = parents.get(waiting.pop(), [])
        waiting += below
        found += [one for one in below if named in commands.get(one, "")]
    return found
