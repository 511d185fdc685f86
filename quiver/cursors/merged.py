"""Bundles of any partitions of a store in order of time: from a time on, to a time, or live."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Final, Self

from quiver.clock import Clock
from quiver.cursors.blocks import Block
from quiver.cursors.inside import Wanted
from quiver.cursors.live import Waits
from quiver.cursors.message import Key, Message, Position
from quiver.cursors.partition import Partition
from quiver.disk import Disk, LocalDisk
from quiver.engine.numbers import core_numbers
from quiver.errors import ClosedError, InputError, OutOfSequenceError, WaitTimeoutError
from quiver.manifest import StoreManifest
from quiver.timeline import TIME_MAX, Time, time_ns
from quiver.units import MILLISECOND, SECOND, parse_duration

__all__ = ["Cursor", "Options"]

_LOOK_AGAIN_NS: Final = 10 * MILLISECOND


class Options:
    """What is asked of a cursor, checked; see ``quiver.cursor``."""

    def __init__(
        self,
        *,
        partitions: Collection[int] | int | None,
        start: Time | None,
        end: Time | None,
        slots: Collection[str] | str | None,
        live: bool,
        reverse: bool,
        allow_late: bool,
        position: Mapping[int, tuple[int, int]] | None,
    ) -> None:
        """Raise InputError for what makes no sense."""
        chosen = {partitions} if isinstance(partitions, int) else partitions
        if chosen is not None and not all(type(core) is int and core >= 0 for core in chosen):
            raise InputError(f"partitions: {partitions!r} are no numbers of cores")
        self.partitions = None if chosen is None else frozenset(chosen)
        self.start_ns = 0 if start is None else time_ns(start, "start")
        self.end_ns = TIME_MAX if end is None else time_ns(end, "end")
        if self.start_ns > self.end_ns:
            raise InputError("the range ends before it starts", hint="both ends are included")
        if live and (reverse or end is not None):
            raise InputError("live: a live cursor has no end, and does not go back")
        self.slots = (slots,) if isinstance(slots, str) else slots
        self.live = live
        self.reverse = reverse
        self.allow_late = allow_late
        try:
            given = {} if position is None else dict(position)
            self.position = {int(core): Position(*map(int, at)) for core, at in given.items()}
        except (TypeError, ValueError) as error:
            raise InputError(f"position: {position!r} is not one that a cursor gave") from error


class Cursor:
    """Made by ``quiver.cursor`` and ``Store.cursor``. Not safe for several threads at once.

    It takes no lock and holds nothing back: what subscribers are done with may be deleted before
    the cursor comes to it, and then ``next`` raises MissingError and goes on behind it.
    """

    def __init__(
        self, disk: Disk, clock: Clock, options: Options, *, owned: LocalDisk | None = None
    ) -> None:
        """Go through the store on a disk; what is ``owned`` is closed with the cursor."""
        self._disk = disk
        self._clock = clock
        self._options = options
        self._owned = owned
        self._closed = False
        self._manifest = StoreManifest.read(disk)
        slots, names = self._manifest.slots, options.slots
        ids = None if names is None else frozenset(slots[name].slot_id for name in names)
        self._wanted = Wanted(
            slots, options.start_ns, options.end_ns, ids, backwards=options.reverse
        )
        self._partitions: dict[int, Partition] = {}
        self._position = dict(options.position)
        self._last: Key | None = None
        self._waits = Waits(disk) if options.live else None
        self._round = -1
        """How often it had been looked when it was last found how far all partitions are."""
        self._meet(self._present())

    def _present(self) -> list[int]:
        chosen = self._options.partitions
        return [n for n in core_numbers(self._disk) if chosen is None or n in chosen]

    def _meet(self, cores: Collection[int]) -> None:
        """Take partitions in that are new to this cursor, or were empty when it looked."""
        for core in cores:
            known = self._partitions.get(core)
            if known is not None and (known.is_ordered or not self._options.live):
                continue
            wanted = replace(self._wanted, after=self._position.get(core))
            found = Partition(self._disk, self._manifest, core, wanted=wanted)
            if self._options.live and not found.is_ordered and not found.is_empty:
                # Its writer may have begun between the looks at its rule and at its log.
                found = Partition(self._disk, self._manifest, core, wanted=wanted)
            self._partitions[core] = found
            if self._options.live and not found.is_ordered and not found.is_empty:
                raise InputError(
                    f"partition {core} follows the clock, and nobody knows what may still come",
                    hint="open it with segment.time 'writer' or 'caller', or leave it out: "
                    "partitions=...",
                )

    @property
    def _looks(self) -> int:
        return sum(partition.looks for partition in self._partitions.values())

    # read --------------------------------------------------------------------------------------

    def next(self, timeout: float | str | None = None) -> Message | None:
        """Give the next message; None at the end of one that is not live.

        A live one waits for it, for so many seconds or ``"10s"`` at most if ``timeout`` is given;
        then it raises WaitTimeoutError. Raises what ``poll`` does.
        """
        limit_ns = None if timeout is None else parse_duration(timeout, key="timeout")
        began_ns = self._clock.monotonic_ns()
        while (found := self.poll()) is None and self._options.live:
            passed_ns = self._clock.monotonic_ns() - began_ns
            if limit_ns is not None and passed_ns >= limit_ns:
                raise WaitTimeoutError("no message came in time", hint="ask again")
            rest_ns = _LOOK_AGAIN_NS if limit_ns is None else limit_ns - passed_ns
            self._clock.pause(min(rest_ns, _LOOK_AGAIN_NS) / SECOND)
        return found

    def poll(self) -> Message | None:
        """Give the next message if its turn has come, and wait for nothing.

        Raises OutOfSequenceError for one that comes late, unless ``allow_late`` was asked for (it
        comes with the next call all the same), MissingError for a block that was deleted before
        the cursor came to it, DamageError.
        """
        if self._closed:
            raise ClosedError("the cursor is closed", hint="make another one")
        best = self._best()
        if best is None or (self._waits and not self._is_its_turn(best)):
            best = self._look_again()
        if best is None:
            return None
        late_behind, self._last = self._last, max(best, self._last or best)
        is_late = late_behind is not None and best < late_behind and not self._options.reverse
        if is_late and not self._options.allow_late and late_behind is not None:
            self._last = best  # Told once: the next call gives it.
            raise OutOfSequenceError(
                f"a bundle of partition {best.partition} came behind later ones of others",
                partition=best.partition,
                last=late_behind.time_ns,
                given=best.time_ns,
                hint="allow_late=True takes what comes as it comes",
            )
        found = self._partitions[best.partition].take()
        self._position[best.partition] = Position(found.time_ns, found.wal_seq)
        return found

    def _best(self) -> Key | None:
        """Find the first of all heads; the log is looked at where blocks are used up."""
        heads = []
        for partition in self._partitions.values():
            partition.go_on()
            if partition.head is None and not partition.has_log:
                partition.look()
            if (head := partition.head) is not None:
                heads.append(head)
        return (max if self._options.reverse else min)(heads, default=None)

    def _is_its_turn(self, best: Key) -> bool:
        if self._options.allow_late or self._waits is None:
            return True
        if self._looks != self._round:  # What came since may be later than what nobody looked at.
            return False
        idle = {
            core: self._position[core].time_ns if core in self._position else 0
            for core, one in self._partitions.items()
            if one.head is None
        }
        return self._waits.allows(best, idle)

    def _look_again(self) -> Key | None:
        """See what came to partitions that had no more, and whose turn it is now."""
        waits = self._waits
        if waits is None:
            return None
        present = self._present()
        idle = {core: one for core, one in self._partitions.items() if one.head is None}
        waits.look({*idle, *(core for core in present if core not in self._partitions)})
        self._meet(present)
        for core, partition in self._partitions.items():
            if partition.head is None and (not partition.has_log or waits.may_have_more(core)):
                partition.look()
        is_stable = waits.look_once_more() and self._present() == present
        self._round = self._looks if is_stable else -1
        best = self._best()
        return best if best is not None and self._is_its_turn(best) else None

    def __iter__(self) -> Iterator[Message]:
        """Go through all messages; a live cursor has no end."""
        return self

    def __next__(self) -> Message:
        """Give the next message."""
        found = self.next()
        if found is None:
            raise StopIteration
        return found

    # where it is -------------------------------------------------------------------------------

    @property
    def partitions(self) -> tuple[int, ...]:
        """The partitions it has found so far."""
        return tuple(sorted(self._partitions))

    @property
    def position(self) -> dict[int, tuple[int, int]]:
        """Time and number of the last message of each partition, to go on behind: ``position=``.

        It holds in another process too, and after any crash of the store.
        """
        return {core: tuple(at) for core, at in self._position.items()}  # type: ignore[misc]

    def reset(self, time: Time) -> None:
        """Jump to a time, forward or back: what comes next is of this time or later.

        Of a cursor in reverse it is of this time or earlier.
        """
        at_ns = time_ns(time)
        wanted = self._wanted
        if wanted.backwards:
            self._wanted = replace(wanted, end_ns=min(at_ns, self._options.end_ns))
        else:
            self._wanted = replace(wanted, start_ns=max(at_ns, self._options.start_ns))
        self._position, self._last = {}, None
        for partition in self._partitions.values():
            partition.rewind(self._wanted)

    def find_block(self, time: Time, partition: int = 0) -> tuple[Block, ...]:
        """Give the block of a partition that a time is in, or else the next one.

        It is one, unless a run of one time goes on in the next block, or the partition follows the
        clock and blocks overlap; none if all finished ones are before that time.
        """
        one = self._partitions.get(partition)
        return () if one is None else one.blocks.find(time_ns(time))

    @property
    def looked_up(self) -> int:
        """Of how many blocks the end was read, to find out their times."""
        return sum(one.blocks.looked_up for one in self._partitions.values())

    def close(self) -> None:
        """Let go of what is open; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        for partition in self._partitions.values():
            partition.close()
        if self._owned is not None:
            self._owned.close()

    def __enter__(self) -> Self:
        """Use it for the length of a block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()
