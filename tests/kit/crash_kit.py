"""Lives of a store, short and eventful, for the crash tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from quiver.testing.oracle import Rehearsal

TINY: Mapping[str, Any] = {
    "wal": {"rotate_size": 3000, "reclaim_size": 1, "max_size": 100_000},
    "acks": {"max_size": 700},
    "limits": {"entry_bytes": 50_000},
}


def append_and_finalize(life: Rehearsal) -> None:
    life.append(4)
    life.finalize()
    life.append(3)
    life.finalize()
    life.append(2)


def rotate(life: Rehearsal) -> None:
    life.append(12)
    life.finalize()
    life.append(5)


def subscribe_ack_delete(life: Rehearsal) -> None:
    life.append(3)
    life.finalize()
    life.take("a", 2)
    life.take("b", 1, nack=True)
    life.append(2)
    life.finalize()
    life.store.maintain()
    life.take("a")
    life.clock.step("1h")
    life.take("b")
    life.store.maintain()
    life.append(1)
    life.finalize()
    life.take("a")
    life.store.maintain()


def close_and_reopen(life: Rehearsal) -> None:
    life.append(3)
    life.store.close()
    life.open()
    life.append(2)
    life.crash()
    life.open()
    life.append(2)
    life.store.close()


def pipeline_without_waiting(life: Rehearsal) -> None:
    life.append(5, wait=False)
    life.flush()
    life.append(4, wait=False)
    life.finalize()
    life.append(2, wait=False)
    life.flush()


WORKLOADS: dict[str, tuple[Callable[[Rehearsal], None], tuple[str, ...]]] = {
    "append and finalize": (append_and_finalize, ()),
    "rotate": (rotate, ()),
    "subscribe, ack, delete": (subscribe_ack_delete, ("a", "b")),
    "close and reopen": (close_and_reopen, ()),
    "pipeline without waiting": (pipeline_without_waiting, ()),
}
