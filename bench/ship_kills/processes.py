"""Actors as processes: forked from the nursery, watched and killed by a handle of the system."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Self

from bench.kit import ROOT
from bench.ship_kills.setup import Setup

__all__ = ["NURSERY", "Actor", "Nursery"]

NURSERY: Final = (sys.executable, "-m", "bench.ship_kills.nursery")


class Nursery:
    """The process that all actors are forked from; they end with it."""

    def __init__(self, setup: Setup, command: Sequence[str] = NURSERY) -> None:
        self._log = os.open(
            os.path.join(setup.folder, "stderr.txt"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644
        )
        self._process = subprocess.Popen(
            [*command, setup.to_json()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=ROOT,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )

    def fork(self, *words: object) -> int:
        """Have an actor started; gives its process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write((" ".join(map(str, words)) + "\n").encode())
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        """End it, and all who are left of its children."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        os.close(self._log)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Actor:
    """One part of the play, which has several lives."""

    def __init__(self, nursery: Nursery, name: str, kind: str, *numbers: int) -> None:
        self.name, self.kind, self._numbers = name, kind, numbers
        self._nursery = nursery
        self._handle: int | None = None
        self.lives = 0

    def start(self) -> None:
        """Begin another life."""
        pid = self._nursery.fork(self.kind, self.lives, *self._numbers)
        self.lives += 1
        with suppress(ProcessLookupError):  # It is gone already; whoever looks will see.
            self._handle = os.pidfd_open(pid)

    @property
    def is_alive(self) -> bool:
        """Whether it is there."""
        return self._handle is not None and not self._has_ended(0)

    def _has_ended(self, seconds: float | None) -> bool:
        assert self._handle is not None
        return bool(select.select([self._handle], [], [], seconds)[0])

    def await_end(self, seconds: float) -> bool:
        """Wait until it has ended by itself; say whether it has."""
        ended = self._handle is None or self._has_ended(seconds)
        if ended:
            self._let_go()
        return ended

    def freeze(self) -> None:
        """Let it stand still where it is."""
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._send(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self._handle is not None:
            self._send(signal.SIGKILL)
            self._has_ended(None)
            self._let_go()

    def _send(self, what: signal.Signals) -> None:
        if self._handle is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, what)

    def _let_go(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
