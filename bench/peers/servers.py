"""Servers of peers: each on a socket of its own, for as long as one run."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

__all__ = ["Server", "free_port", "program"]

PATIENCE = 30.0


def program(name: str) -> str | None:
    """Say where a server is, also where it is not on the path of users."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")


def free_port() -> int:
    """Give a port of the loopback that nobody listens on."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Server:
    """A server process, in the process group of whoever started it."""

    def __init__(self, command: Sequence[str], answers: Callable[[], bool], *, log: Path) -> None:
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        limit = time.monotonic() + PATIENCE
        try:
            while not answers():
                if self.process.poll() is not None or time.monotonic() > limit:
                    raise RuntimeError(f"{command[0]} does not answer: {log.read_text()[-500:]}")
                time.sleep(0.002)
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        return self.process.pid

    def stop(self) -> None:
        """Kill it, and see it gone."""
        self.process.kill()
        self.process.wait()
