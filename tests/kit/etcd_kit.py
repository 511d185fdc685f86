"""A real etcd of our own: one member on loopback, in a folder that goes with the test."""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from seaweed import Pause, free_ports

__all__ = ["EtcdServer", "etcd_missing", "running_etcd"]

_READY_SECONDS: Final = 60.0
_STARTS_MAX: Final = 4


def etcd_missing() -> str:
    """Say why there can be no test with etcd; empty if there can."""
    return "" if shutil.which("etcd") else "there is no etcd: apt-get install etcd-server"


class EtcdServer:
    """One member; may be killed and started again on the same folder."""

    def __init__(self, folder: Path, tls: Sequence[str] = (), *, host: str = "127.0.0.1") -> None:
        """Begin on a folder; ``tls`` is what makes clients come by TLS."""
        self._folder = folder
        self._host = host
        self._tls = tls
        self._process: subprocess.Popen[bytes] | None = None
        for start in range(_STARTS_MAX):
            self.port, self._peer_port, self._health_port = free_ports(3)
            try:
                self.start()
            except ConnectionError:  # Somebody may have taken a port since it was picked.
                if start == _STARTS_MAX - 1:
                    raise
            else:
                return

    def start(self) -> None:
        """Start it, and return once it answers."""
        client = f"http{'s' if self._tls else ''}://{self._host}:{self.port}"
        peer = f"http://127.0.0.1:{self._peer_port}"
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *("etcd", "--data-dir", str(self._folder / f"data-{self.port}")),
                    *("--listen-client-urls", client, "--advertise-client-urls", client),
                    *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                    *("--initial-cluster", f"default={peer}", "--logger", "zap"),
                    *("--listen-metrics-urls", f"http://127.0.0.1:{self._health_port}"),
                    *self._tls,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={k: v for k, v in os.environ.items() if not k.startswith("ETCD_")},
            )
        limit = time.monotonic() + _READY_SECONDS
        pause = Pause(self._process)
        try:
            while not self._is_healthy():
                pause.until(limit)
        except BaseException:
            self.kill()
            raise

    def _is_healthy(self) -> bool:
        try:
            with closing(
                http.client.HTTPConnection("127.0.0.1", self._health_port, timeout=5)
            ) as asked:
                asked.request("GET", "/health")
                return b'"true"' in asked.getresponse().read()
        except (OSError, http.client.HTTPException):
            return False

    def signal(self, number: int) -> None:
        """Send the process a signal."""
        if self._process is not None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """End it as a power cut of the machine's processes does; a second call does nothing."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait()


@contextmanager
def running_etcd(folder: Path, tls: Sequence[str] = ()) -> Iterator[EtcdServer]:
    """Have a server as long as the block lasts; its folder is made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    server = EtcdServer(folder, tls)
    try:
        yield server
    finally:
        server.kill()
