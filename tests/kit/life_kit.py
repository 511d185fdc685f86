"""Hours of a store in seconds: producers by lot, subscribers that die, full disks, restarts.

All that goes in and comes out is counted by number, so that at the end, for each subscriber,
what went in is what it acked and what it was told to have lost.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from store_kit import SLOTS, abandon

import quiver
from quiver.engine.maintenance import let_go
from quiver.engine.reserve import reserve_bytes
from quiver.testing import ManualClock, MemoryDisk
from quiver.units import SECOND

HOUR_NS = 3600 * SECOND
CAP = 260_000
DISK = 600_000
KNOBS: dict[str, Any] = {
    "segment": {"target_size": 8000, "max_open_duration": "2m"},
    "limits": {"entry_bytes": 12_000},
    "wal": {"max_size": 30_000, "rotate_size": 15_000, "reclaim_size": 4096},
    "acks": {"max_size": 8192},
}


@dataclass
class Life:
    """One store over time, with everything that happens to it drawn by lot."""

    seed: str
    policy: str
    hours: float = 10
    max_hours: float = 0
    """``retention.max_retain_after_ingestion_hours``."""
    slow_share: float = 0.2
    """In how many steps the slow one takes anything."""
    disk: MemoryDisk = field(default_factory=lambda: MemoryDisk(capacity=DISK))
    clock: ManualClock = field(default_factory=ManualClock)
    acked: dict[str, list[int]] = field(default_factory=dict)
    lost: dict[str, int] = field(default_factory=dict)
    sent: int = 0
    refused: int = 0
    full_times: int = 0
    restarts: int = 0
    most_bytes: int = 0
    store: quiver.Store | None = None

    def __post_init__(self) -> None:
        """Open the store with its subscribers."""
        self.lot = random.Random(self.seed)
        self.config = quiver.Config.of(
            {
                **KNOBS,
                "retention": {
                    "size_cap": CAP,
                    "size_cap_policy": self.policy,
                    "steady_state_headroom": self.lot.choice([0, 40_000]),
                    "max_retain_after_ingestion_hours": self.max_hours,
                },
            }
        )
        self.alive = ["quick", "slow"]
        self._open()
        assert self.store is not None
        for name in self.alive:
            self.store.subscribe(name)
            self.acked[name], self.lost[name] = [], 0

    def lead(self) -> None:
        """Live for as long as it is to be, then drain everything."""
        end_ns = self.clock.monotonic_ns() + int(self.hours * HOUR_NS)
        while self.clock.monotonic_ns() < end_ns:
            self._step()
        self._heal()
        self.clock.step("2h")  # A clock that was set back lets what was nacked wait for so long.
        for _ in range(20):  # Each time some are nacked, and come again.
            self._maintain()
            self._opened.finalize()
            for name in self.acked:
                self._take(name, 1_000_000)
            self.clock.step("1m")
            if not any(lag.bundle_count for lag in self._opened.lags()):
                break
        self._maintain()

    @property
    def _opened(self) -> quiver.Store:
        if self.store is None:
            self._open()
        assert self.store is not None
        return self.store

    def _open(self) -> None:
        self.store = quiver.open(
            "memory",
            slots=SLOTS,
            disk=self.disk,
            clock=self.clock,
            worker=False,
            config=self.config,
        )

    def _step(self) -> None:
        self.clock.step(f"{self.lot.randint(1, 60)}s")
        draw = self.lot.random()
        if draw < 0.01:
            self._fill_disk()
        elif draw < 0.03:
            self._heal()
        elif draw < 0.045:
            self._restart()
        elif draw < 0.05:
            self._step_clock()
        if self.store is None:
            with contextlib.suppress(quiver.CapacityError):
                self._open()
            if self.store is None:
                return
        for _ in range(self.lot.choice([0, 1, 2, 8])):
            self._append()
        self._take("quick", self.lot.randint(0, 12))
        if self.lot.random() < self.slow_share:
            self._take("slow", self.lot.randint(0, 30))
        self._maintain()
        used = self.disk.used() - self._wasted()
        self.most_bytes = max(self.most_bytes, used)

    def _append(self) -> None:
        rows = self.lot.choice([1, 20, 200])
        events = pa.record_batch({"n": pa.array([self.sent] * rows, pa.int64())})
        with self._counted():
            try:
                self._opened.append({"events": events})
                self.sent += 1
            except quiver.CapacityError:
                self.refused += 1

    def _take(self, name: str, count: int) -> None:
        subscription = self._opened.subscribe(name)
        with self._counted():
            for _ in range(count):
                handle = subscription.poll()
                if handle is None:
                    return
                number = handle["events"].column("n")[0].as_py()
                if self.lot.random() < 0.05:
                    handle.nack()
                    continue
                handle.ack()
                self.acked[name].append(number)

    def _maintain(self) -> None:
        with self._counted(), contextlib.suppress(quiver.CapacityError):
            self._opened.maintain()

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        """Add what subscribers lose inside; the store counts from its opening."""
        before = self._losses()
        try:
            yield
        finally:
            for name, count in self._losses().items():
                self.lost[name] += count - before[name]

    def _losses(self) -> dict[str, int]:
        metrics = self._opened.metrics()
        names = self.acked
        return {name: metrics.get(("quiver.subscriber.dropped_bundles", name), 0) for name in names}

    def _restart(self) -> None:
        if self.store is None:
            return
        self.restarts += 1
        if self.lot.random() < 0.5:
            let_go(self.store._core)  # As the system does for a process that is killed.
            abandon(self.store)
        else:
            with self._counted(), contextlib.suppress(quiver.CapacityError):
                self.store.close()
        self.store = None
        self.clock.step(f"{self.lot.randint(1, 300)}s")

    def _step_clock(self) -> None:
        step_ns = self.lot.choice([-HOUR_NS, HOUR_NS // 10, -60 * SECOND])
        self.clock.jump_to(self.clock.wall_ns() + step_ns)

    def _wasted(self) -> int:
        found = self.disk.stat("other")
        return 0 if found is None else found.allocated

    def _fill_disk(self) -> None:
        self._heal()
        self.full_times += 1
        file = self.disk.create("other")
        with contextlib.suppress(quiver.CapacityError):
            file.write(0, bytes(DISK))
        file.close()

    def _heal(self) -> None:
        if self.disk.stat("other") is not None:
            self.disk.unlink("other")

    @property
    def bytes_max(self) -> int:
        """What the disk may hold at most: the cap and a segment, and the folder's own files."""
        return CAP + reserve_bytes(self.config)
