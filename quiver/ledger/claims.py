"""Announce, then look: how cores share a cap without a lock that anybody could hold.

Pure: a method here is a generator that yields a Record to be written, or None for a look, which
gives a View. Between any two of its steps other cores may do any of theirs.

A core that grows writes down how far it wants to, then looks. Of two that do so at once, the one
that wrote later sees the other, so confirmed claims never add up to more than the cap.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from quiver.ledger.format import Record

__all__ = ["Claims", "Steps", "View"]

_LOOKS: Final = 4
"""How often a core looks for those of higher numbers to give way."""
_STALE_TICKS: Final = 8
"""After so many ticks in which its record stood still, nobody listens to what a core wants."""
_FRESH_TICKS: Final = 2
"""For a want that is no fresher than that nothing is dropped: ticks do not come at one time."""
_PATIENCE_TICKS: Final = 3
"""For so long a core asks others for what all have, before it may drop what is not processed."""


@dataclass(frozen=True, slots=True)
class View:
    """What one look shows: sound records by core, and what cores without one take on the disk."""

    records: Mapping[int, Record]
    strangers: Callable[[], int] = int

    def charge(self, but: int) -> int:
        """How much of the cap all others take."""
        known = sum(r.charge for number, r in self.records.items() if number != but)
        return known + self.strangers()


_Result = TypeVar("_Result")
Steps: TypeAlias = Generator[Record | None, View, _Result]


class Claims:
    """What one core has claimed of a cap."""

    def __init__(self, core: int, cap: int, *, quantum: int) -> None:
        """Begin with nothing; claims grow by ``quantum`` bytes at a time."""
        self.core, self.cap, self.quantum = core, cap, quantum
        self.claimed = 0
        self._record = Record(core)
        self._was_refused = False
        self._rest = 0
        self._asked_ticks = 0
        self._others_spare = 0
        self._free = cap
        self._turns: dict[int, tuple[int, int]] = {}
        self._wants: dict[int, tuple[int, int, int]] = {}
        """Who is refused: for how many ticks, what it wants, and what it takes of the cap."""

    @property
    def may_drop(self) -> bool:
        """Whether nobody else has anything processed to give up, as far as asking tells."""
        return self._asked_ticks >= _PATIENCE_TICKS or self._others_spare == 0

    def starved_of(self, even: int) -> int:
        """Give what others want for a while who have less than ``even``, and cannot get.

        0 as long as anybody has something processed to give up.
        """
        if self._others_spare or self._record.spare:
            return 0
        waiting = [w for w in self._wants.values() if w[0] > _PATIENCE_TICKS and w[2] < even]
        return sum(min(wanted, even - charge) for _, wanted, charge in waiting)

    def lacking(self, even: int) -> int:
        """Give what this core wants itself, for a while and in vain, below its even part."""
        if self._asked_ticks <= _PATIENCE_TICKS or self._others_spare:
            return 0
        return min(self._record.wanted, max(even - self.claimed, 0))

    @property
    def is_short(self) -> bool:
        """Whether something was refused before the last tick."""
        return self._asked_ticks > 0

    def grow(self, used: int, incoming: int) -> Steps[int]:
        """Try to claim what is used and incoming, and a little more; give what may be used then.

        That is what is claimed, or what is used already, as far as the others leave so much. After
        a refusal this takes no step before the next tick.
        """
        need = used + incoming
        if need <= self.claimed:
            return self.claimed
        if self._was_refused or self._rest:
            self._was_refused = True
            return max(self.claimed, min(used, self._free))
        goal = min(self._rounded(need), self.cap)
        yield self._say(held=used, claimed=goal, pending=True)
        for _ in range(_LOOKS):
            view = yield None
            free = self._free = max(self.cap - view.charge(self.core), 0)
            if need <= free:
                self.claimed = min(goal, free)
                self._asked_ticks = 0
                yield self._say(held=used, claimed=self.claimed)
                return self.claimed
            rivals = [r for n, r in view.records.items() if r.pending and n != self.core]
            if any(rival.core < self.core for rival in rivals):
                self._rest = 1 + self._record.turn % 2
                break
            if need > free + sum(max(r.claimed - r.held, 0) for r in rivals):
                break
        self._was_refused = True
        # What is there counts as claimed: if some of it goes, something else may come.
        self.claimed = max(self.claimed, min(used, self._free))
        self._others_spare = sum(r.spare for n, r in view.records.items() if n != self.core)
        yield self._say(held=used, wanted=max(need - self.claimed, 1))
        return self.claimed

    def tend(self, used: int, spare: int) -> Steps[bool]:
        """Give back what is not used, repeat what is wanted; say if others want what is spare."""
        view = yield None
        is_asked = self._hear(view)
        keep = used if is_asked else self._rounded(used) + self.quantum
        self.claimed = min(self.claimed, keep)
        self._asked_ticks = self._asked_ticks + 1 if self._was_refused else 0
        wanted = self._record.wanted or 1 if self._was_refused else 0
        self._rest = max(self._rest - 1, 0)
        self._was_refused = False
        said = self._record._replace(
            held=used, claimed=self.claimed, wanted=wanted, spare=spare, pending=False
        )
        if wanted or said != self._record or view.records.get(self.core) != self._record:
            yield self._say(held=used, wanted=wanted, spare=spare)
        return is_asked

    def leave(self, used: int) -> Steps[None]:
        """Keep no more than what is there."""
        self.claimed = used
        yield self._say(held=used)

    def _rounded(self, count: int) -> int:
        return -(-count // self.quantum) * self.quantum

    def _say(
        self,
        *,
        held: int,
        claimed: int | None = None,
        wanted: int = 0,
        spare: int | None = None,
        pending: bool = False,
    ) -> Record:
        self._record = Record(
            self.core,
            (self._record.turn + 1) % (1 << 32),
            held,
            self.claimed if claimed is None else claimed,
            wanted,
            self._record.spare if spare is None else spare,
            pending,
        )
        return self._record

    def _hear(self, view: View) -> bool:
        """Whether somebody wants something, who is still there to say so again and again."""
        is_asked, self._others_spare, turns = False, 0, dict[int, tuple[int, int]]()
        wants: dict[int, tuple[int, int, int]] = {}
        for number, record in view.records.items():
            if number == self.core:
                continue
            turn, age = self._turns.get(number, (-1, 0))
            turns[number] = record.turn, 0 if record.turn != turn else age + 1
            self._others_spare += record.spare
            if record.wanted > 0 and turns[number][1] < _STALE_TICKS:
                is_asked = True
                if turns[number][1] <= _FRESH_TICKS:
                    ticks = self._wants.get(number, (0, 0, 0))[0] + 1
                    wants[number] = ticks, record.wanted, record.charge
        self._turns, self._wants = turns, wants
        return is_asked
