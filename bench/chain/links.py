"""Links between processes of one machine that can be cut: bytes vanish, and nobody is told.

A node is reached by way of its link alone. Who came to it is found by its socket in ``/proc``, so
that also two nodes can be cut off from each other while all others reach both.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, Self

__all__ = ["Links"]

_PIECE: Final = 1 << 16


class Links:
    """One link for each node. Safe for many threads."""

    def __init__(self, names: Iterable[str]) -> None:
        """Listen for each; whoever comes before it leads anywhere is sent away."""
        self._changed = threading.Condition()
        self._cut: set[frozenset[str]] = set()
        self._targets: dict[str, tuple[str, int]] = {}
        self._pids: dict[str, int] = {}
        self._sockets: list[socket.socket] = []
        self._is_over = False
        self._listening = {name: socket.create_server(("127.0.0.1", 0)) for name in names}

    def __enter__(self) -> Self:
        """Begin to take connections."""
        for name, server in self._listening.items():
            self._spawn(name, server)
        return self

    def __exit__(self, *_: object) -> None:
        """Close all."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        for each in (*self._listening.values(), *self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def address(self, name: str) -> str:
        """Say where a node is reached."""
        return f"127.0.0.1:{self._listening[name].getsockname()[1]}"

    def lead(self, name: str, address: str, *, pid: int) -> None:
        """Lead to where a node listens, and know what it says by its process."""
        host, _, port = address.rpartition(":")
        self._targets[name] = (host, int(port))
        self._pids[name] = pid

    def cut(self, *names: str) -> None:
        """Cut one off from all, or two from each other."""
        with self._changed:
            self._cut.add(frozenset(names))

    def heal(self) -> None:
        """Let everything through again."""
        with self._changed:
            self._cut.clear()
            self._changed.notify_all()

    def _spawn(self, name: str, server: socket.socket) -> None:
        threading.Thread(target=self._accept, args=(name, server), daemon=True).start()

    def _accept(self, name: str, server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, (_, port) = server.accept()
                self._sockets.append(near)
                threading.Thread(target=self._join, args=(name, near, port), daemon=True).start()

    def _join(self, name: str, near: socket.socket, port: int) -> None:
        ends = frozenset([name, self._owner(port)])
        if not self._may_pass(ends):
            return
        far = socket.socket()
        self._sockets.append(far)
        try:
            far.connect(self._targets[name])
        except (OSError, KeyError):
            near.close()
            return
        for each in (near, far):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        back = threading.Thread(target=self._pump, args=(far, near, ends), daemon=True)
        back.start()
        self._pump(near, far, ends)

    def _pump(self, source: socket.socket, sink: socket.socket, ends: frozenset[str]) -> None:
        is_reset = False
        try:
            while data := source.recv(_PIECE):
                if not self._may_pass(ends):
                    return
                sink.sendall(data)
        except OSError:
            is_reset = True  # As by a process that was killed with bytes that it had not read.
        if self._may_pass(ends):
            for each in (source, sink) if is_reset else ():
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            with suppress(OSError):
                sink.shutdown(socket.SHUT_WR)

    def _may_pass(self, ends: frozenset[str]) -> bool:
        """Wait while nothing goes from one end to the other; False when all is over."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_over or not any(each <= ends for each in self._cut)
            )
            return not self._is_over

    def _owner(self, port: int) -> str:
        """Find the node whose socket has a port of ours; empty: somebody else."""
        inode = _inode(port)
        for name, pid in list(self._pids.items()):
            with suppress(OSError), os.scandir(f"/proc/{pid}/fd") as found:
                for each in found:
                    with suppress(OSError):
                        if os.readlink(each.path) == f"socket:[{inode}]":
                            return name
        return ""


def _inode(port: int) -> str:
    """Find a socket by its port, which it may have by IPv6, too."""
    for table, host in (("tcp", "0100007F"), ("tcp6", "0000000000000000FFFF00000100007F")):
        with suppress(OSError), open(f"/proc/net/{table}", encoding="ascii") as file:
            for line in file:
                fields = line.split()
                if fields[1] == f"{host}:{port:04X}":
                    return fields[9]
    return ""
