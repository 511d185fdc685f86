"""Lives of a store whose log files go round: what segments hold of them is written over.

What lies behind the end of such a file was good once. These lives put all into it that may be
taken for something newer, and crash, refuse and kill amid that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from quiver.testing.rehearsal import Rehearsal

__all__ = ["ROUNDS", "ROUNDS_CONFIGS", "ROUNDS_WAL"]

ROUNDS_WAL: Final[Mapping[str, Any]] = {
    "rotate_size": 3000,
    "reclaim_size": 1,
    "max_size": 100_000,
    "reclaim": "recycle",
}


def files_go_round(life: Rehearsal) -> None:
    """Segments of different sizes, so that ends come before, at and behind older entries."""
    for count in (3, 1, 2, 4, 1):
        life.append(count)
        life.finalize()
    life.append(2)


def rounds_with_crashes(life: Rehearsal) -> None:
    """Open amid the rounds: what is older behind an end goes, and new spares come."""
    for count, restart in ((3, life.crash), (2, life.close), (1, life.crash)):
        for _ in range(2):
            life.append(count)
            life.finalize()
        life.append(1)
        restart()
        life.open()
        life.append(1)


def rounds_without_waiting(life: Rehearsal) -> None:
    """Many entries in one write, over older ones, and nobody who waits for them."""
    life.let_wait()
    for count in (3, 2, 1):
        life.append(count, wait=False)
        life.finalize()
        life.append(count, wait=False)
        life.write_some()
    life.flush()
    life.append(3, wait=False)
    life.crash()
    life.open()
    life.append(1)


def rounds_meanwhile(life: Rehearsal) -> None:
    """Files of which segments hold a part, since more came while these were written."""
    life.register("a")
    for count in (2, 1, 3):
        life.append(count)
        with life.meanwhile(lambda moment: life.append(1) if moment % 5 == 1 else None):
            life.finalize()
        life.take("a", 2)
        life.maintain()
    life.append(1)


def rounds_after_refusals(life: Rehearsal) -> None:
    """Go on, whatever act of a round is refused."""
    steps: tuple[Callable[[], None], ...] = (
        lambda: life.append(3),
        life.finalize,
        lambda: life.append(2),
        life.finalize,
        lambda: life.append(2),
        lambda: life.append(1, wait=False),
        life.flush,
        life.finalize,
        lambda: life.append(6),
        life.maintain,
        life.finalize,
        lambda: life.append(1),
    )
    for step in steps:
        life.survive(step)


ROUNDS: Final[Mapping[str, Callable[[Rehearsal], None]]] = {
    "files go round": files_go_round,
    "rounds with crashes": rounds_with_crashes,
    "rounds without waiting": rounds_without_waiting,
    "rounds meanwhile": rounds_meanwhile,
    "rounds after refusals": rounds_after_refusals,
}
ROUNDS_CONFIGS: Final[Mapping[str, Mapping[str, Any]]] = {
    name: {
        "wal": ROUNDS_WAL,
        "acks": {"max_size": 100_000},
        "limits": {"entry_bytes": 50_000},
    }
    for name in ROUNDS
}
