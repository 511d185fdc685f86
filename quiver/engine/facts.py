"""What a store says of itself: where it is, what opening found, what it counted, what there is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from quiver.config import Durability
from quiver.engine.core import Core, RecoveryReport
from quiver.engine.info import StoreInfo, describe
from quiver.engine.stats import CoreStats, stats_of
from quiver.errors import ClosedError, QuiverError
from quiver.metrics import Metrics
from quiver.slots import SlotTable

__all__ = ["StoreFacts"]


class StoreFacts(ABC):
    """The side of a store that only tells."""

    _core: Core

    @abstractmethod
    def check_alive(self) -> None:
        """Raise unless the store is open, in this process, and knows the state of its disk."""

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether ``close`` was called."""

    @property
    def path(self) -> str:
        """The folder of the store."""
        return self._core.disk.locate("")

    @property
    def core(self) -> int:
        """The number of the core that it writes."""
        return self._core.number

    @property
    def durability(self) -> Durability:
        """What ``append`` waits for: the option ``wal.durability``."""
        return self._core.config.wal.durability

    @property
    def is_ready(self) -> bool:
        """Whether an append with ``wait=False`` and no timeout would wait for nothing but a lock.

        It may be another's turn before yours: then it waits for a segment to be written.
        """
        core = self._core
        limit_bytes = core.config.segment.target_size // 2
        return core.sealed is None or core.open_segment.payload_bytes < limit_bytes

    @property
    def slots(self) -> SlotTable:
        """The slot table that the store was created with."""
        return self._core.manifest.slots

    @property
    def recovery(self) -> RecoveryReport:
        """What opening found: bundles brought back, a tail cut, damage set aside."""
        return self._core.report

    @property
    def refused_inboxes(self) -> Mapping[str, QuiverError]:
        """What subscribers in other processes left and cannot be believed: by name, and why."""
        return dict(self._core.refused_inboxes)

    @property
    def instruments(self) -> Metrics:
        """The counters and histograms themselves, for whoever hands them on."""
        return self._core.metrics

    def metrics(self) -> Mapping[tuple[str, str], int]:
        """Counters since the store was opened, by (name, label); time is in nanoseconds."""
        return self._core.metrics.read()

    def info(self) -> StoreInfo:
        """Describe the state of each station at this moment."""
        self.check_alive()
        with self._core.lock:
            return describe(self._core, self.path)

    def stats(self) -> CoreStats:
        """Say in numbers what each station holds; also of a store that stopped after a fault."""
        self._core.check_process()
        if self.closed:
            raise ClosedError("the store is closed", hint="quiver.open(path) opens it again")
        return stats_of(self._core)
