"""What Flight and syncs alone take: processes that write, sync, pass on and send acks back.

Nothing of a chain is around them: no promise, no check, no epoch, no numbers. Started as a program
it is one of these nodes: ``python -m bench.chain.bare FILE [NEXT]`` says its address and serves.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import flight

from bench.kit import ROOT

__all__ = ["Bare", "bare_chain"]

_SCHEMA: Final = pa.schema([])
_WAY: Final = flight.FlightDescriptor.for_command(b"bare")
_ACK: Final = b"1"
_WINDOW: Final = 16
_SMALL: Final = 64 << 10
_ZEROS: Final = bytes(128 << 10)
"""Written ahead of small messages, as a node's log has them (``copies/room``)."""


class Node(flight.FlightServerBase):
    """Writes what comes to a file, syncs it, and passes it on."""

    def __init__(self, path: str, behind: str) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self._path, self._behind = path, behind
        self._listener: Any = None
        self._is_over = threading.Event()

    def do_put(self, _context: Any, *way: Any) -> None:
        """Take a stream in; whoever listens at the last node is told how far it is safe."""
        _, reader, _ = way
        with open(self._path, "wb", buffering=0) as file:
            if self._behind:
                client = flight.connect(self._behind)
                down, _ = client.do_put(_WAY, _SCHEMA)
                _pass_through(reader, file.fileno(), down.write_metadata)
                down.done_writing()
                down.close()
            else:
                _pass_through(reader, file.fileno(), lambda _: self._listener.write_metadata(_ACK))
                self._is_over.set()

    def do_exchange(self, _context: Any, *way: Any) -> None:
        """Tell whoever calls of each message that is safe here, and so everywhere."""
        _, _, self._listener = way
        self._listener.begin(_SCHEMA)
        self._listener.write_metadata(_ACK)
        self._is_over.wait()


def _pass_through(reader: Any, file: int, pass_on: Any) -> None:
    """Small messages are synced and passed on where they are read; others by a second thread."""
    queue: deque[Any] = deque()
    changed = threading.Condition()
    is_over = [False]

    def sync_and_pass() -> None:
        while True:
            with changed:
                changed.wait_for(lambda: queue or is_over[0])
                part = list(queue)
                queue.clear()
            if not part:
                return
            os.fdatasync(file)
            for each in part:
                pass_on(each)

    beside = threading.Thread(target=sync_and_pass)
    beside.start()
    place = room_end = 0
    while True:
        try:
            message = reader.read_chunk().app_metadata
        except StopIteration:
            break
        os.pwrite(file, message, place)
        place += message.size
        if message.size <= _SMALL:
            os.fdatasync(file)
            pass_on(message)
            if room_end - place < _SMALL:
                room_end = max(room_end, place) + os.pwrite(file, _ZEROS, max(room_end, place))
            continue
        with changed:
            queue.append(message)
            changed.notify_all()
    with changed:
        is_over[0] = True
        changed.notify_all()
    beside.join()


class Bare:
    """Sends to the first of such nodes, and listens to the last one."""

    def __init__(self, first: str, last: str) -> None:
        self._clients = [flight.connect(place) for place in (first, last)]
        self._listening, self._acks = self._clients[1].do_exchange(_WAY)
        self._acks.read_chunk()
        self._writer, _ = self._clients[0].do_put(_WAY, _SCHEMA)

    def wait_for_one(self, message: bytes) -> float:
        """Send a message and wait until all have it; seconds."""
        begun = time.perf_counter()
        self._writer.write_metadata(message)
        self._acks.read_chunk()
        return time.perf_counter() - begun

    def rate(self, message: bytes, count: int) -> float:
        """Send many, some on their way at once; bytes a second until all have them."""
        begun = time.perf_counter()
        for sent in range(count):
            if sent >= _WINDOW:
                self._acks.read_chunk()
            self._writer.write_metadata(message)
        for _ in range(min(count, _WINDOW)):
            self._acks.read_chunk()
        return count * len(message) / (time.perf_counter() - begun)

    def close(self) -> None:
        """End the stream."""
        self._writer.close()


@contextmanager
def bare_chain(folder: Path, copies: int) -> Iterator[Bare]:
    """Start so many nodes, the last one first; nothing is left of them."""
    processes: list[subprocess.Popen[str]] = []
    paths = [folder / f"bare-{number}" for number in range(copies)]
    behind: Sequence[str] = ()
    places: list[str] = []
    try:
        for path in paths:
            process = subprocess.Popen(
                [sys.executable, "-m", "bench.chain.bare", str(path), *behind],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                cwd=ROOT,
            )
            processes.append(process)
            if process.stdout is None:
                raise ValueError("a node was started without a pipe")
            behind = (process.stdout.readline().strip(),)
            places.append(*behind)
        bare = Bare(places[-1], places[0])
        yield bare
        bare.close()
    finally:
        for process in processes:
            process.kill()
            process.communicate()
        for path in paths:
            path.unlink(missing_ok=True)


if __name__ == "__main__":
    node = Node(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "")
    print(f"grpc://127.0.0.1:{node.port}", flush=True)
    node.serve()
