"""Live cursors in threads of their own."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence

from bench.chain_soak.settings import value_of
from quiver.chain.cluster import Cluster
from quiver.errors import QuiverError, WaitTimeoutError

__all__ = ["Reader"]


class Reader:
    """A live cursor over some partitions; now and then another one goes on behind it."""

    def __init__(self, cluster: Cluster, partitions: Sequence[str]) -> None:
        """Begin to read."""
        self._cluster = cluster
        self.partitions = tuple(partitions)
        self.found: dict[str, list[int]] = {name: [] for name in partitions}
        self.faults: list[str] = []
        self._is_over = self._wants_another = False
        self._thread = threading.Thread(target=self._run, name="soak reader", daemon=True)
        self._thread.start()

    def go_on_with_another(self) -> None:
        """Close the cursor, and make one from where it was."""
        self._wants_another = True

    def wait(self, wanted: Mapping[str, Sequence[int]], seconds: float) -> None:
        """Return once there is as much as that, or time is up."""
        limit = time.monotonic() + seconds
        while time.monotonic() < limit and any(
            len(self.found[name]) < len(wanted[name]) for name in self.partitions
        ):
            time.sleep(0.05)

    def close(self) -> None:
        """Read no more."""
        self._is_over = True
        self._thread.join(10)

    def _run(self) -> None:
        position: dict[str, tuple[int, int]] = {}
        while not self._is_over:
            self._wants_another = False
            with self._cluster.cursor(self.partitions, live=True, position=position) as cursor:
                while not (self._is_over or self._wants_another):
                    try:
                        message = cursor.next(timeout=0.1)
                    except WaitTimeoutError:
                        continue
                    except QuiverError as error:
                        self.faults.append(f"{type(error).__name__}: {error}")
                        break
                    if message is not None:
                        self.found[message.partition].append(value_of(message))
                position = cursor.position
