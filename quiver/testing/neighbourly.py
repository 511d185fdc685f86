"""Lives of a core that has neighbours: they share a cap with it, or adopt it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from typing import Any, Final, cast

from quiver.config import Config
from quiver.engine.adoption import adopt_core
from quiver.errors import QuiverError
from quiver.ledger import LEDGER_NAME
from quiver.testing.lossy import LOSSY_CONFIGS, losing
from quiver.testing.rehearsal import Rehearsal
from quiver.testing.subject import Stage

__all__ = ["NEIGHBOURLY", "NEIGHBOURLY_CONFIGS"]


def share_the_cap(life: Rehearsal) -> None:
    """Drop the oldest below a cap that the ledger tells, which is damaged in the middle."""
    life.register("a", "b")
    with losing(life):
        for turn in range(9):
            life.survive(lambda: life.append(3))
            life.survive(lambda: life.take("a", 2))
            life.survive(life.maintain)
            if turn in (3, 5):
                life.survive(lambda: _spoil(life))
        life.crash()
        life.open()
        life.survive(lambda: life.append(3))
        life.survive(lambda: life.take("b", 4))
        life.survive(life.maintain)
        life.survive(life.close)
        if life.store.closed:
            life.open()
        life.survive(lambda: life.append(1))


def _spoil(life: Rehearsal) -> None:
    with closing(life.stage.open(LEDGER_NAME, writable=True)) as ledger:
        ledger.write(70, b"\xff" * 50)


def left_to_others(life: Rehearsal) -> None:
    """Die again and again, be adopted each time, and go on where that was."""
    life.register("a")
    for turn in range(4):
        life.survive(lambda: life.append(3))
        if turn % 2:
            life.survive(life.finalize)
            life.survive(lambda: life.append(2))
        life.survive(lambda: life.take("a", 3))
        life.crash()
        _adopt(life)
        life.open()
    life.survive(lambda: life.take("a"))
    life.survive(life.maintain)


def _adopt(life: Rehearsal) -> None:
    """Do what a neighbour does, who may fail and leave the rest to the next."""
    with suppress(QuiverError):
        disk = cast("Stage", life.busy)
        adopt_core(disk, 0, config=Config.of(life.config), clock=life.clock)


NEIGHBOURLY: Final[Mapping[str, Callable[[Rehearsal], None]]] = {
    "share the cap": share_the_cap,
    "left to others": left_to_others,
}
_SHARED: Final = LOSSY_CONFIGS["drop the oldest"]
NEIGHBOURLY_CONFIGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "share the cap": {**_SHARED, "retention": {**_SHARED["retention"], "coordination": "shared"}},
}
