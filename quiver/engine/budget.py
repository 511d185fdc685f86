"""How much of the cap this core may use right now, when several cores share one store.

``Static`` divides the cap by the number of cores that have a folder. Whoever needs to know how much
there is asks ``allowed``; a tick looks whether that number has changed.
"""

from __future__ import annotations

from typing import Final, Protocol

from quiver.config import Config
from quiver.disk import Disk
from quiver.engine.numbers import core_numbers
from quiver.errors import ConfigError

__all__ = ["Budget", "Static", "budget_of", "check_share"]


class Budget(Protocol):
    """What retention asks before it lets a core grow; called with the core's lock held."""

    @property
    def may_drop(self) -> bool:
        """Whether unprocessed data may go: nobody else has anything processed to give up."""
        ...

    def allowed(self, used_bytes: int, incoming_bytes: int) -> int:
        """Give how many bytes this core may use, after trying to make it used + incoming.

        The answer may be less than that. Costs no act on the disk as long as it is enough. Not to
        be asked where there is no cap.
        """
        ...

    def tick(self, used_bytes: int, *, spare_bytes: int = 0) -> bool:
        """Look around, once a tick; say whether other cores want what this one keeps processed.

        ``spare_bytes`` is how much of what is used everybody has, and could go.
        """
        ...

    def close(self) -> None:
        """Leave behind what this core holds; a second call does nothing."""
        ...


class Static:
    """The cap, divided evenly among the cores that have a folder."""

    may_drop: Final = True

    def __init__(self, disk: Disk, number: int, cap_bytes: int) -> None:
        """Count the cores, this one among them."""
        self._disk, self._number, self._cap = disk, number, cap_bytes
        self._share = cap_bytes // len(_cores(disk, number))

    def allowed(self, used_bytes: int, incoming_bytes: int) -> int:  # noqa: ARG002
        """Give the share of this core."""
        return self._share

    def tick(self, used_bytes: int, *, spare_bytes: int = 0) -> bool:  # noqa: ARG002
        """Count the cores again: each new one makes the share of all others smaller."""
        if self._cap:
            self._share = self._cap // len(_cores(self._disk, self._number))
        return False

    def close(self) -> None:
        """Leave nothing behind."""


def _cores(disk: Disk, number: int) -> set[int]:
    return {*core_numbers(disk), number}


def budget_of(disk: Disk, number: int, config: Config) -> Budget:
    """Make the budget that the options ask for."""
    return Static(disk, number, config.retention.size_cap)


def check_share(disk: Disk, number: int, config: Config) -> None:
    """Raise ConfigError if the share of each core, with this one, is too small to work with."""
    cap, count = config.retention.size_cap, len(_cores(disk, number))
    least = config.wal.max_size + 2 * config.segment.target_size
    if config.retention.coordination == "static" and 0 < cap < least * count:
        raise ConfigError(
            f"retention.size_cap ({cap}) divided by {count} cores is {cap // count} each, "
            f"below {least}",
            hint="each core needs room for wal.max_size and two segments of segment.target_size: "
            f"raise size_cap to {least * count}, lower these, or open fewer cores",
        )
