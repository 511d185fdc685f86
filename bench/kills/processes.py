"""Actors as processes: forked from the nursery, watched and killed by a handle of the system."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

from bench.kit import ROOT

__all__ = ["Actor", "Nursery"]


class Nursery:
    """The process that all actors are forked from; they end with it."""

    def __init__(self, command: Sequence[str], stderr: str) -> None:
        self._log = os.open(stderr, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._process = subprocess.Popen(
            command,
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
        self._pid = 0
        self.more: tuple[int, ...] = ()
        """What its last life was started with."""
        self.lives = 0

    def start(self, *more: int) -> None:
        """Begin another life."""
        self.more = more
        self._pid = pid = self._nursery.fork(self.kind, self.lives, *self._numbers, *more)
        self.lives += 1
        with suppress(ProcessLookupError):  # It is gone already; whoever looks will see.
            self._handle = os.pidfd_open(pid)

    @property
    def is_alive(self) -> bool:
        """Whether it is there."""
        return self._handle is not None and not self._has_ended(0)

    @property
    def is_stopped(self) -> bool:
        """Whether it stands still: by its own will, or frozen."""
        with suppress(FileNotFoundError), open(f"/proc/{self._pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] == "T"
        return False

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
