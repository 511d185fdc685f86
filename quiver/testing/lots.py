"""Lives by lot: what happens next is drawn, and equal names draw equal lives."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final, overload

from quiver.testing.rehearsal import Rehearsal

__all__ = ["CROWD", "MOMENTS", "Names", "at_moment", "by_lot"]

CROWD: Final = "crowd"
"""How lives begin whose subscribers do all that they can."""

MOMENTS: Final = 12
"""In which something else may be done while a segment of two slots is written, or more."""

_FAMILIES: Final = ("seed", CROWD)
_COMMITS: Final = 0.5
_EVENTS: Final = 16


class Names(Sequence[str]):
    """Names of lives by hand, and of so many pairs by lot; those are made when asked for."""

    def __init__(self, by_hand: Sequence[str], pairs: int, seed: int) -> None:
        """Take the first ones as they are."""
        self._by_hand = tuple(by_hand)
        self._places = range(len(self._by_hand) + len(_FAMILIES) * pairs)
        self._seed = seed

    def __len__(self) -> int:
        """How many there are."""
        return len(self._places)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...
    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        """Give one name, or some."""
        if isinstance(place, slice):
            return [self[each] for each in self._places[place]]
        found = self._places[place]
        if found < len(self._by_hand):
            return self._by_hand[found]
        number, family = divmod(found - len(self._by_hand), len(_FAMILIES))
        return f"{_FAMILIES[family]} {self._seed}.{number}"


def by_lot(life: Rehearsal, name: str) -> None:
    """Lead the life of this name; what the disk refuses, it survives as far as a user would."""
    lot = random.Random(name)
    is_crowd = name.startswith(CROWD)
    subscribers = ["a", "b", "c"][: lot.randint(1 if is_crowd else 0, 3)]
    for _ in range(_EVENTS):
        life.survive(_event(life, subscribers, lot, is_crowd=is_crowd))


def at_moment(chosen: int, act: Callable[[], None]) -> Callable[[int], None]:
    """Do something at one of the moments in which a segment is written."""
    return lambda moment: act() if moment == chosen else None


def _event(
    life: Rehearsal, subscribers: list[str], lot: random.Random, *, is_crowd: bool
) -> Callable[[], None]:
    """Choose by lot what happens next; a crowd does more with its subscribers."""

    def someone() -> str:
        return lot.choice(subscribers)

    calm: list[Callable[[], None]] = [
        lambda: life.append(lot.randint(1, 4)),
        lambda: life.append(lot.randint(1, 4)),
        lambda: life.append(lot.randint(1, 5), wait=False),
        life.flush,
        life.finalize,
    ]
    if subscribers:
        calm += [
            lambda: life.register(someone()),
            lambda: life.take(someone(), lot.randint(1, 5)),
            lambda: life.take(someone()),
            lambda: life.take(someone(), lot.randint(1, 2), nack=True),
            lambda: life.clock.step("1m"),
            life.maintain,
        ]
    if subscribers and is_crowd:
        calm += [
            lambda: life.take_runs(someone(), lot.randint(1, 4)),
            lambda: life.reject(someone()),
            lambda: life.reset(someone()),
            lambda: _pause(life, someone()),
            lambda: life.beside(someone(), lot.randint(1, 4)),
            lambda: life.beside(someone(), commit=lot.random() < _COMMITS),
        ]
    amid = at_moment(lot.randrange(MOMENTS), lot.choice(calm))
    events = [
        *calm,
        lambda: _finalize_amid(life, amid),
        lambda: _finalize_amid(life, amid),
        lambda: _reopen(life),
        lambda: _kill(life),
    ]
    return lot.choice(events)


def _pause(life: Rehearsal, subscriber: str) -> None:
    life.register(subscriber)
    if life.store.lag(subscriber).is_paused:
        life.store.resume(subscriber)
    else:
        life.store.pause(subscriber)


def _finalize_amid(life: Rehearsal, event: Callable[[int], None]) -> None:
    """Finalize, and let something else happen at some moment of that."""
    with life.meanwhile(event):
        life.finalize()


def _reopen(life: Rehearsal) -> None:
    life.close()
    life.open()


def _kill(life: Rehearsal) -> None:
    life.crash()
    life.open()
