"""A link of ours between two addresses of this machine, that a test can cut and heal."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

__all__ = ["TcpProxy"]


class TcpProxy:
    """Passes bytes on to an address; while it is cut, nothing goes through and nobody is told."""

    def __init__(self, target: str = "") -> None:
        """Begin to listen; whoever comes before a target is known is sent away."""
        self.target = target
        self._open, self._there = threading.Event(), threading.Event()
        self._open.set()
        self._there.set()
        self._over = False
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._start(self._accept)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listening.getsockname()[1]}"

    def cut(self) -> None:
        """Let packets vanish."""
        self._open.clear()

    def cut_there(self) -> None:
        """Let those vanish that go to the target; what comes back goes through."""
        self._there.clear()

    def heal(self) -> None:
        self._there.set()
        self._open.set()

    def close(self) -> None:
        self._over = True
        self.heal()
        for each in (self._listening, *self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(10)

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self, work, *arguments) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                self._open.wait()
                if self._over:
                    near.close()
                    return
                far = socket.socket()
                self._sockets += [near, far]
                try:
                    host, _, port = self.target.rpartition(":")
                    far.connect((host, int(port)))
                except (OSError, ValueError):
                    near.close()
                    continue
                self._start(self._pump, near, far, self._there)
                self._start(self._pump, far, near, self._open)

    def _pump(self, source: socket.socket, sink: socket.socket, way: threading.Event) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                self._wait(way)
                if self._over:
                    return
                sink.sendall(data)
            self._wait(way)
            sink.shutdown(socket.SHUT_WR)

    def _wait(self, way: threading.Event) -> None:
        way.wait()
        self._open.wait()
