"""Lives of a store whose appends leave the write to others, as they do where there is a worker.

Nobody writes by chance: a life says when, so that each cut and each refusal comes again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from unittest import mock

from quiver.disk import Bytes
from quiver.errors import CapacityError
from quiver.testing.rehearsal import Rehearsal
from quiver.wal import Place
from quiver.wal.writer import Writer

__all__ = ["OUTGOING", "OUTGOING_CONFIGS"]


def entries_that_wait(life: Rehearsal) -> None:
    """Before each thing that a store does, bundles of which some are written and some are not."""
    life.let_wait()
    life.register("a")
    acts: tuple[Callable[[], None], ...] = (
        life.flush,
        lambda: life.append(2),
        life.finalize,
        life.maintain,
        lambda: life.take("a", 3),
        life.look_ahead,
        lambda: life.append(12, wait=False),  # More than a file takes.
        life.finalize,
    )
    for act in acts:
        life.survive(lambda: life.append(2, wait=False))
        life.survive(life.write_some)
        life.survive(lambda: life.append(2, wait=False))
        life.survive(act)
    life.survive(lambda: life.append(2, wait=False))
    life.survive(life.close)
    if life.store.closed:
        life.open()
    life.survive(lambda: life.append(2, wait=False))
    life.crash()
    life.open()
    life.survive(lambda: life.append(1))


def waiting_meanwhile(life: Rehearsal) -> None:
    """Do so while segments are written, which fill and follow each other."""
    life.let_wait()
    steps: tuple[Callable[[], None], ...] = (
        lambda: life.append(2, wait=False),
        life.write_some,
        lambda: life.append(1, wait=False),
        lambda: life.append(1),
        life.flush,
    )
    with life.meanwhile(lambda moment: steps[moment % len(steps)]()):
        for _ in range(3):
            life.survive(lambda: life.append(5, wait=False))
            life.survive(life.finalize)
    with life.refusing(1):
        life.survive(life.finalize)
    life.survive(lambda: life.append(3, wait=False))
    life.survive(life.maintain)
    life.survive(life.close)


@contextmanager
def _room_for(count: int) -> Iterator[None]:
    """Let there be room for so many writes to the log."""
    left, honest = iter(range(count)), Writer.append

    def append(self: Writer, *entries: Sequence[Bytes], last_seq: int) -> Place:
        if len(entries) > 1 or next(left, None) is None:
            raise CapacityError("the disk is full")
        return honest(self, *entries, last_seq=last_seq)

    with mock.patch.object(Writer, "append", append):
        yield


def refused_while_waiting(life: Rehearsal) -> None:
    """Let the disk be full when what waits is to be written, from some entry on."""
    life.let_wait()
    life.register("a")
    acts: tuple[Callable[[], None], ...] = (
        life.flush,
        life.finalize,
        life.maintain,
        lambda: life.append(1),
        life.write_some,
    )
    for place, act in enumerate(acts):
        life.survive(lambda: life.append(2, wait=False))
        life.survive(life.write_some)
        life.survive(lambda: life.append(4, wait=False))
        with _room_for(place % 3):
            life.survive(act)
            life.survive(life.flush)
        life.survive(lambda: life.append(1, wait=False))
        life.survive(life.look_ahead)
    life.survive(life.finalize)
    life.survive(lambda: life.take("a"))
    life.survive(lambda: life.append(3, wait=False))
    with _room_for(1):
        life.survive(life.close)
    if life.store.closed:
        life.open()
    life.survive(lambda: life.append(1))


OUTGOING: Final[Mapping[str, Callable[[Rehearsal], None]]] = {
    "entries that wait": entries_that_wait,
    "waiting for segments": waiting_meanwhile,
    "waiting without holes": entries_that_wait,
    "refused while waiting": refused_while_waiting,
}

_WAL: Final = {"rotate_size": 3000, "reclaim_size": 1, "max_size": 100_000}
_REST: Final[Mapping[str, Any]] = {
    "acks": {"max_size": 100_000},
    "limits": {"entry_bytes": 50_000},
}
OUTGOING_CONFIGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "entries that wait": {**_REST, "wal": _WAL},
    "refused while waiting": {**_REST, "wal": _WAL},
    "waiting for segments": {**_REST, "wal": _WAL, "segment": {"target_size": 2500}},
    "waiting without holes": {
        **_REST,
        "wal": {**_WAL, "rotate_size": 100_000, "reclaim": "copy"},
    },
}
