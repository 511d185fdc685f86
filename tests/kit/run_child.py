"""``quiver run`` as a process, for tests: what it says, requests to it, and its end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import urllib3
from otlp_sinks import logs_request

PATIENCE = 60.0


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class RunChild:
    """A process of ``quiver run --json``; it is killed at the end of a block if it lives."""

    def __init__(self, file: Path, *arguments: str) -> None:
        self.said: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        root = str(Path(__file__).parents[2])
        self._errors = file.with_suffix(".err").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "quiver", "run", str(file), "--json", *arguments],
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, "PYTHONPATH": root},
        )
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.said.append(json.loads(line))
                self._changed.notify_all()
        with self._changed:
            self.said.append({"kind": "closed"})
            self._changed.notify_all()

    def wait_for(self, kind: str) -> dict[str, Any]:
        """Wait until it says something of a kind; AssertionError if it ends before."""
        kinds = {kind, "closed"}
        with self._changed:
            assert self._changed.wait_for(lambda: self._first(kinds) is not None, PATIENCE)
            found = self._first(kinds)
        assert found is not None
        assert found["kind"] == kind, Path(self._errors.name).read_text()
        return found

    def _first(self, kinds: set[str]) -> dict[str, Any] | None:
        return next((each for each in self.said if each["kind"] in kinds), None)

    def addresses(self, node: str) -> list[str]:
        receivers = self.wait_for("ready")["receivers"]
        return [each["address"] for each in receivers if each["node"] == node]

    def children(self) -> list[int]:
        """The processes that it started."""
        folder = Path(f"/proc/{self.process.pid}/task")
        found = (task / "children" for task in folder.iterdir())
        return [int(pid) for path in found for pid in path.read_text().split()]

    def kill(self) -> None:
        self.process.kill()
        self._end()

    def terminate(self) -> int:
        """Let it drain; gives its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self._end()

    def _end(self) -> int:
        code = self.process.wait(PATIENCE)
        self._thread.join(PATIENCE)
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self._end()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._errors.close()


class Sender:
    """Sends one log after the other to an address, and knows which were taken."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.taken: list[str] = []
        self.sent = 0
        self._changed = threading.Condition()

    def send(self, address: str, count: int) -> None:
        """Send until so many more were taken, or nobody is there any more."""
        with urllib3.PoolManager(retries=False, timeout=PATIENCE) as pool:
            wanted = len(self.taken) + count
            for _ in range(count * 100):
                if len(self.taken) >= wanted or not self._send(pool, address):
                    return

    def _send(self, pool: urllib3.PoolManager, address: str) -> bool:
        text = f"{self.name}-{self.sent}"
        self.sent += 1
        try:
            answer = pool.request(
                "POST",
                f"http://{address}/v1/logs",
                body=logs_request(text),
                headers={"content-type": "application/x-protobuf"},
            )
        except urllib3.exceptions.HTTPError:
            return False
        if answer.status == 200:
            with self._changed:
                self.taken.append(text)
                self._changed.notify_all()
        return True

    def wait_for(self, count: int) -> None:
        """Wait until so many were taken."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.taken) >= count, PATIENCE)


@contextmanager
def sending(sender: Sender, address: str, count: int) -> Iterator[threading.Thread]:
    """Send from a thread of its own, and wait for its end behind the block."""
    thread = threading.Thread(target=sender.send, args=(address, count))
    thread.start()
    try:
        yield thread
    finally:
        thread.join(PATIENCE)
