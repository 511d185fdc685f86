"""How much of the cap this core may use right now, when several cores share one store.

``Static`` divides the cap by the number of cores that ever had a bundle, ``Shared`` takes what the
others leave, by way of the ledger. Whoever needs to know how much there is asks ``allowed``; a tick
looks what has changed, and ``surplus`` says what others have a right to.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final, Protocol, TypeVar

from quiver.config import Config
from quiver.disk import Disk
from quiver.engine.numbers import (
    CORES_MAX,
    core_bytes,
    core_folder,
    core_numbers,
    staged_bytes,
    was_used,
)
from quiver.engine.reserve import RESERVE_NAME, reserve_bytes
from quiver.errors import ConfigError, QuiverError
from quiver.events import Events
from quiver.ledger import (
    LEDGER_NAME,
    Claims,
    Record,
    Steps,
    View,
    read_ledger,
    write_record,
)

__all__ = ["Budget", "Shared", "Static", "budget_of", "check_share", "leave_behind", "sharers"]

_QUANTA: Final = 4
"""Claims grow by this part of a segment."""
_SETTLING_TICKS: Final = 8
"""For so long it is looked what the others really hold, once one more shares the cap."""
_Result = TypeVar("_Result")


class Budget(Protocol):
    """What retention asks before it lets a core grow; called with the core's lock held."""

    @property
    def may_drop(self) -> bool:
        """Whether unprocessed data may go: nobody else has anything processed to give up."""
        ...

    @property
    def is_short(self) -> bool:
        """Whether this core asked for more than it could get at its last tick."""
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

    def surplus(self, used_bytes: int) -> int:
        """Give how much of what is used others have a right to and wait for, under drop_oldest."""
        ...

    @property
    def even(self) -> int:
        """An even part of the cap."""
        ...

    @property
    def lacking(self) -> int:
        """Bytes below its even part that this core waits for in vain, for a while."""
        ...

    def close(self) -> None:
        """Leave behind what this core holds; a second call does nothing."""
        ...


class Static:
    """The cap, divided evenly among the cores that are open and those that ever had a bundle.

    One more core makes the shares of all others smaller: once it is open they grow no further than
    to the smaller one, and with its first bundle they have to come down to it. Until they have, it
    gets no more than what they leave.
    """

    may_drop: Final = True
    is_short: Final = False

    def __init__(self, disk: Disk, number: int, cap_bytes: int, *, store_id: str = "") -> None:
        """Count the cores, this one among them; ``store_id`` if it is to tell a ledger."""
        self._store_id = store_id
        self._disk, self._number, self._cap = disk, number, cap_bytes
        self._sharing: frozenset[int] = frozenset()
        self._users: frozenset[int] = frozenset()
        self._kept: int | None = None
        """What was used when the last of the others was opened; looked up when next asked."""
        self._share = self._most = self._left = cap_bytes
        self._settling = self._crowded_ticks = 0
        if cap_bytes:
            self._count()

    def _count(self) -> None:
        """Find the share to grow to, the most that may be kept, and what the others leave."""
        sharing = sharers(self._disk, self._number)
        users = frozenset({n for n in sharing if was_used(self._disk, n)} | {self._number})
        if sharing != self._sharing:
            self._sharing, self._kept = sharing, None
        if users != self._users:
            self._users, self._settling, self._crowded_ticks = users, _SETTLING_TICKS, 0
        # What is staged for a sink is in no core, and leaves less to all of them to grow to.
        free = max(self._cap - staged_bytes(self._disk), 0)
        self._share, self._most = free // len(sharing), self._cap // len(users)
        if not self._settling:
            self._left = self._share
            return
        # Those who do not come down soon may have much to be counted.
        if self._crowded_ticks <= _SETTLING_TICKS or not self._crowded_ticks % _SETTLING_TICKS:
            self._left = self._measure()
        is_crowded = self._left < self._share
        self._settling -= not is_crowded
        self._crowded_ticks = self._crowded_ticks + 1 if is_crowded else 0

    def _measure(self) -> int:
        """Find out what the others leave of the cap on the disk."""
        with suppress(QuiverError):
            others = _cores(self._disk, self._number) - {self._number}
            held = sum(core_bytes(self._disk, number) for number in others)
            return max(self._cap - held - staged_bytes(self._disk), 0)
        return self._share  # Of what cannot be looked at nobody knows.

    def allowed(self, used_bytes: int, incoming_bytes: int) -> int:  # noqa: ARG002
        """Give the share of this core, what it had if that was more, or what the others leave."""
        if self._kept is None:
            self._kept = used_bytes
        share = max(self._share, min(self._kept, self._most))
        if self._left >= self._share:
            return share
        # Its first bundle tells the others that it is there.
        is_known = was_used(self._disk, self._number)
        return min(share, self._left) if is_known else self._share

    def tick(self, used_bytes: int, *, spare_bytes: int = 0) -> bool:  # noqa: ARG002
        """Count the cores again."""
        if self._cap:
            self._count()
        return False

    def surplus(self, used_bytes: int) -> int:
        """Give what is above the most that may be kept, if that became less just now."""
        return max(used_bytes - self._most, 0) if self._settling else 0

    @property
    def even(self) -> int:
        """The share of this core."""
        return self._share

    @property
    def lacking(self) -> int:
        """What others did not leave of it, who had time to come down to theirs."""
        return self._share - self._left if self._crowded_ticks > _SETTLING_TICKS else 0

    def close(self) -> None:
        """Say what is left here, if others share a cap: they would believe what was said before."""
        if self._store_id:
            with suppress(QuiverError):  # It is a hint, and may be of a newer version.
                leave_behind(self._disk, self._number, store_id=self._store_id)


class Shared:
    """What the other cores leave of the cap, by way of the ledger.

    Where that cannot be used a core keeps what it has, and grows no further than to its even part,
    nor beyond what others leave on the disk, until a tick finds that it can be used again.
    """

    def __init__(
        self, disk: Disk, number: int, config: Config, *, store_id: str, events: Events
    ) -> None:
        """Look at nothing yet."""
        self._events = events
        self._disk, self._number = disk, number
        self._store_id = bytes.fromhex(store_id)
        cap = config.retention.size_cap
        quantum = max(config.segment.target_size // _QUANTA, 1)
        self._claims = Claims(number, cap, quantum=quantum)
        self._cap = cap
        self._even = cap // len(_cores(disk, number))
        self._used = 0
        self._closed = False
        self._failure: QuiverError | None = None
        self._left = 0
        """What others left on the disk, when the ledger could not be used."""

    @property
    def may_drop(self) -> bool:
        """Whether the others have nothing processed, or were asked for it long enough."""
        return self._failure is not None or self._claims.may_drop

    @property
    def is_short(self) -> bool:
        """Whether it asked the others for more."""
        return self._claims.is_short

    def allowed(self, used_bytes: int, incoming_bytes: int) -> int:
        """Give what is claimed, after trying to claim what is needed."""
        self._used = used_bytes
        claimed = None
        if self._failure is None:
            claimed = self._do(self._claims.grow(used_bytes, incoming_bytes))
        if claimed is not None:
            return claimed
        return max(self._claims.claimed, min(used_bytes, self._cap), min(self._even, self._left))

    def tick(self, used_bytes: int, *, spare_bytes: int = 0) -> bool:
        """Give back what is not used, and hear what the others want."""
        self._used = used_bytes
        self._even = self._cap // len(_cores(self._disk, self._number))
        return bool(self._do(self._claims.tend(used_bytes, spare_bytes)))

    @property
    def even(self) -> int:
        """The cap by the number of folders."""
        return self._even

    @property
    def lacking(self) -> int:
        """What was refused for a while, below an even part."""
        return 0 if self._failure is not None else self._claims.lacking(self._even)

    def surplus(self, used_bytes: int) -> int:
        """Give what is above an even part while somebody below that was refused for a while."""
        if self._failure is not None:
            return 0
        return min(self._claims.starved_of(self._even), max(used_bytes - self._even, 0))

    def close(self) -> None:
        """Leave behind how much is held."""
        if not self._closed:
            self._closed = True
            self._do(self._claims.leave(self._used))

    def _do(self, steps: Steps[_Result]) -> _Result | None:
        """Take the steps on the disk; None if that cannot be done."""
        try:
            said = next(steps)
            while True:
                said = steps.send(self._look() if said is None else self._write(said))
        except StopIteration as end:
            self._failure = None
            return end.value
        except QuiverError as error:
            if self._failure is None:
                self._events.warning("retention.ledger_failed", error=error)
                self._events.tell()
            self._failure = error
            self._left = self._left_on_disk()
            return None

    def _left_on_disk(self) -> int:
        with suppress(QuiverError):
            self._even = self._cap // len(_cores(self._disk, self._number))
            others = _cores(self._disk, self._number) - {self._number}
            left = self._cap - staged_bytes(self._disk)
            return left - sum(core_bytes(self._disk, number) for number in others)
        return 0

    def _write(self, record: Record) -> View:
        write_record(self._disk, record, store_id=self._store_id)
        return View({})

    def _look(self) -> View:
        cores = _cores(self._disk, self._number)
        records = read_ledger(self._disk, cores, store_id=self._store_id)
        strangers = cores - records.keys() - {self._number}

        def charge() -> int:
            quantum = self._claims.quantum
            staged = staged_bytes(self._disk)
            return staged + sum(core_bytes(self._disk, number) + quantum for number in strangers)

        return View(records, charge)


def leave_behind(disk: Disk, number: int, *, store_id: str) -> None:
    """Say in the ledger how much a core holds that nobody writes; for whoever has its lock."""
    if disk.stat(LEDGER_NAME) is not None and number < CORES_MAX:
        record = Record(number, held=core_bytes(disk, number))
        write_record(disk, record, store_id=bytes.fromhex(store_id))


def _cores(disk: Disk, number: int) -> set[int]:
    return {*core_numbers(disk), number}


def sharers(disk: Disk, number: int | None = None) -> frozenset[int]:
    """List the cores that a cap is divided by: this one, and all that are open or had a bundle.

    What tells that a core is open with a cap is its reserve, which is there until it is adopted.
    One that was made once, by mistake perhaps, and got nothing makes no share smaller for ever.
    """
    found = {n for n in core_numbers(disk) if n != number and _takes_part(disk, n)}
    return frozenset(found if number is None else {*found, number})


def _takes_part(disk: Disk, number: int) -> bool:
    has_reserve = disk.stat(f"{core_folder(number)}/{RESERVE_NAME}") is not None
    return has_reserve or was_used(disk, number)


def budget_of(
    disk: Disk, number: int, config: Config, *, store_id: str, events: Events | None = None
) -> Budget:
    """Make the budget that the options ask for."""
    retention = config.retention
    if retention.size_cap and retention.coordination == "shared":
        return Shared(disk, number, config, store_id=store_id, events=events or Events())
    return Static(disk, number, retention.size_cap, store_id=store_id)


def check_share(disk: Disk, number: int, config: Config) -> None:
    """Raise ConfigError if the cap is too small for so many cores, this one among them.

    Static parts must each be as large as a cap must be; where it is shared one core must be able to
    work while all others have nothing but their reserves.
    """
    cap, count = config.retention.size_cap, len(sharers(disk, number))
    least = config.size_cap_min
    if config.retention.coordination == "static":
        needed = least * count
        text = f"divided by {count} cores is {cap // count} each, below {least}"
    else:
        needed = least + (count - 1) * reserve_bytes(config)
        text = f"is below {needed}, which is needed for {count} cores"
    if 0 < cap < needed:
        raise ConfigError(
            f"retention.size_cap ({cap}) {text}",
            hint=f"raise it to {needed}, lower wal.max_size or segment.target_size, or open fewer "
            "cores: each that is open or ever had a bundle counts",
        )
