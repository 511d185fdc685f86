"""A receiver in a process of its own, before a real store, that is killed while it works.

``receiver_child.py STORE PROTOCOL COUNT``: writes its port, and ends with SIGKILL when it has
appended so many batches, before the sender of the last one is answered.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence

from receiver_kit import plain_reading, served

import quiver
from quiver.otel import TELEMETRY, Batch, Signal


class Mortal:
    """An intake that dies behind an append."""

    def __init__(self, path: str, count: int) -> None:
        self._store = quiver.open(path, slots=TELEMETRY)
        self._left = count
        self._lock = threading.Lock()

    def take(self, signal_: Signal, batches: Sequence[Batch]) -> None:
        for batch in batches:
            self._store.append(batch.bundle)
        with self._lock:
            self._left -= 1
            if not self._left:
                os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    path, protocol, count = sys.argv[1:]
    with served(protocol, Mortal(path, int(count)), reading=plain_reading) as here:
        sys.stdout.write(f"{here.port}\n")
        sys.stdout.flush()
        sys.stdin.read()
