"""Nodes as processes, with their metadata in a folder."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Final, Self

from bench.chain.links import Links
from bench.kit import ROOT

__all__ = ["PATIENCE", "Nodes"]

PATIENCE: Final = 90.0


class Nodes:
    """Some nodes; with ``links`` all that is said to them goes through those."""

    def __init__(
        self, folder: Path, names: Sequence[str], *, links: Links | None = None, audit: str = "1h"
    ) -> None:
        """Start nothing yet; ``audit`` is the time between passes over all blocks."""
        self._folder = folder
        self._names = tuple(names)
        self._links = links
        self._audit = audit
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.metadata = str(folder / "metadata")

    def __enter__(self) -> Self:
        """Start all; returns once they serve."""
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            for name in self._names:
                self._start(name)
            for name in self._names:
                self._await(name)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Kill all."""
        for process in self._processes.values():
            process.kill()
            process.wait()
            _out(process).close()

    def kill(self, name: str) -> None:
        """SIGKILL to one."""
        self._processes[name].kill()
        self._processes[name].wait()

    def pause(self, name: str) -> None:
        """SIGSTOP to one."""
        self._processes[name].send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """SIGCONT to one."""
        self._processes[name].send_signal(signal.SIGCONT)

    def restart(self, name: str) -> None:
        """Start one again that was killed; returns once it serves."""
        _out(self._processes[name]).close()
        self._start(name)
        self._await(name)

    def _start(self, name: str) -> None:
        command = [sys.executable, "-m", "quiver", "node", "--json", "--name", name]
        command += ["--dir", str(self._folder / name), "--metadata", self.metadata]
        command += ["--audit-every", self._audit]
        if self._links is not None:
            command += ["--advertise", self._links.address(name)]
        with (self._folder / "nodes.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
            )
        self._processes[name] = process

    def _await(self, name: str) -> None:
        process = self._processes[name]
        poll = select.poll()  # Links that were cut keep more files open than select knows.
        poll.register(_out(process), select.POLLIN)
        ready = poll.poll(PATIENCE * 1000)
        line = _out(process).readline() if ready else b""
        if not line:
            raise SystemExit(f"{name} does not serve; see {self._folder / 'nodes.log'}")
        if self._links is not None:
            address = json.loads(line)["address"]
            self._links.lead(name, address, pid=process.pid)


def _out(process: subprocess.Popen[bytes]) -> IO[Any]:
    if process.stdout is None:
        raise ValueError("a node was started without a pipe")
    return process.stdout
