"""What waits, time by time: at most one command for each key and time is ever given out.

Commands for one key at two times are two commands: from_time orders those of one time alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa

from quiver.errors import InputError
from quiver.promote import union_schema
from quiver.upsert.rows import Commands
from quiver.upsert.stash.bin import BYTES_MOST, Bin

__all__ = ["Stash"]

_ROWS_CHANGED: Final = 1 << 20


class Stash:
    """Commands by their time; memory grows with distinct keys and times, not with commands."""

    def __init__(self, *, bytes_most: int = BYTES_MOST) -> None:
        self._bins: dict[int, Bin] = {}
        self._orders: list[pa.Schema] = []
        """What orders commands, none or one that holds all; empty before the first."""
        self._bytes_most = bytes_most

    def __len__(self) -> int:
        """How many rows it keeps: up to twice as many as there are keys and times, and a few."""
        return sum(map(len, self._bins.values()))

    @property
    def nbytes(self) -> int:
        """How much memory the rows take, about."""
        return sum(one.nbytes for one in self._bins.values())

    @property
    def first(self) -> int | None:
        """The least time of what waits; None if nothing does."""
        return min(self._bins, default=None)

    def add(self, commands: Commands, time: int) -> None:
        """Take commands for a time, which came later than all before for that time.

        Raises InputError, and takes nothing, if their order does not go with that of the others.
        """
        if len(commands):
            self._check_order(commands)
            self._bins.setdefault(time, Bin(self._bytes_most)).add(commands)

    def windows(self, time: int, rows: int) -> Iterator[Commands]:
        """Give what waits for a time, one command of each key, so many at a time; they stay."""
        found = self._bins.get(time)
        if found is not None:
            yield from found.windows(rows)

    def count(self, start: int, stop: int | None) -> int:
        """How many rows wait for times from ``start`` to before ``stop``, None being the end."""
        end = max(self._bins, default=0) + 1 if stop is None else stop
        return sum(len(one) for time, one in self._bins.items() if start <= time < end)

    def changed(self, change: Callable[[Commands], Commands]) -> Stash:
        """Give a stash with ``change`` done to all that waits, in the order in which it came."""
        other = Stash(bytes_most=self._bytes_most)
        for time, one in self._bins.items():
            for part in one.windows(_ROWS_CHANGED):
                other.add(change(part), time)
        return other

    def _check_order(self, commands: Commands) -> None:
        order = pa.schema([] if commands.order is None else list(commands.order.type))
        if not self._bins:
            self._orders = []
        if self._orders and bool(self._orders[0].names) != bool(order.names):
            raise InputError("some commands have an order and others have none")
        self._orders = [union_schema([*self._orders, order])]

    def drop(self, time: int) -> None:
        """Let go of what waits for a time."""
        self._bins.pop(time, None)

    def drop_before(self, time: int) -> int:
        """Let go of what waits for any earlier time, and say how many rows that was."""
        count = self.count(0, time)
        for early in [at for at in self._bins if at < time]:
            self.drop(early)
        return count
