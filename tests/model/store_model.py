"""What a store may and must do, said in a hundred lines: numbers and sets instead of bytes.

::

    0 ............ durable ............ next
    must be there    may be lost in a power cut

Of each reader a bundle is ``done`` (acked, durable), ``fresh`` (acked since the last tick), or
``unsure``: a power cut may or may not have taken the ack back, or the bundle may be deleted.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from quiver.testing import Loss

__all__ = ["Model", "Reader"]


@dataclass
class Reader:
    """What one subscriber did."""

    done: set[int] = field(default_factory=set)
    fresh: set[int] = field(default_factory=set)
    unsure: set[int] = field(default_factory=set)
    held: set[int] = field(default_factory=set)
    waiting: dict[int, int] = field(default_factory=dict)
    """Nacked bundles, and the wall time from which each is offered again."""
    unsure_waiting: dict[int, int] = field(default_factory=dict)

    @property
    def resolved(self) -> set[int]:
        return self.done | self.fresh


@dataclass
class Model:
    """A store as its promises describe it."""

    next: int = 0
    durable: int = 0
    finalized: int = 0
    """Bundles below are in segments."""
    segment_seq: int = -1
    """The highest that was told."""
    holes: set[int] = field(default_factory=set)
    """Bundles that a power cut may have taken out of the middle: none of them was durable."""
    gone: set[int] = field(default_factory=set)
    """Bundles that all readers of some moment may have resolved, so that they may be deleted."""
    readers: dict[str, Reader] = field(default_factory=dict)

    def certain(self) -> set[int]:
        """Bundles that must be in segments."""
        return set(range(self.finalized)) - self.holes - self.gone

    def tick(self) -> None:
        """Everything so far survives a power cut."""
        self.durable = self.next
        self.sync_acks()

    def sync_acks(self) -> None:
        for reader in self.readers.values():
            reader.done |= reader.fresh
            reader.fresh = set()

    def register(self, name: str) -> None:
        self.readers.setdefault(name, Reader(unsure=set(self.gone)))

    def unregister(self, name: str) -> None:
        del self.readers[name]
        self.note_gone()

    def note_gone(self) -> None:
        """Whatever all readers have may be deleted from now on."""
        if self.readers:
            every = [reader.resolved | reader.unsure for reader in self.readers.values()]
            self.gone |= set.intersection(*every)

    def delivered(self, name: str, number: int | None, now_ns: int) -> None:
        """Raise Loss unless this is what the reader may get next; None is nothing."""
        reader = self.readers[name]
        late = {n for n, at in (reader.waiting | reader.unsure_waiting).items() if at > now_ns}
        must = set(range(self.finalized)) - self.holes
        must -= reader.resolved | reader.unsure | reader.held | late
        if number is None:
            if must:
                raise Loss(f"{name} does not get {sorted(must)}")
            return
        if number >= self.finalized:
            raise Loss(f"{name} gets {number}, which is in no segment")
        if number in reader.resolved | reader.held:
            raise Loss(f"{name} gets {number} again")
        if reader.waiting.get(number, now_ns) > now_ns:
            raise Loss(f"{name} gets {number} before its time")
        if min(must, default=number) < number:
            raise Loss(f"{name} gets {number} before {min(must)}")
        reader.unsure.discard(number)
        reader.held.add(number)

    def acked(self, name: str, number: int) -> None:
        reader = self.readers[name]
        self.given_back(name, number)
        for waiting in (reader.waiting, reader.unsure_waiting):
            waiting.pop(number, None)
        reader.fresh.add(number)
        self.note_gone()

    def nacked(self, name: str, number: int, not_before_ns: int) -> None:
        reader = self.readers[name]
        self.given_back(name, number)
        reader.unsure_waiting.pop(number, None)
        reader.waiting[number] = not_before_ns

    def given_back(self, name: str, number: int) -> None:
        self.readers[name].held.discard(number)

    def reopened(self, there: int, *, lossy: bool, torn: bool, most: int, lost: range) -> None:
        """Come back with numbers below ``there``; lossy: what was not durable may be lost.

        ``lost`` are numbers that garbage at the end of the log took with it.
        """
        least = self.durable if lossy else self.next
        bundles = there if self.holes >= set(lost) else lost.start
        if not least <= bundles <= most:
            raise Loss(f"{bundles} bundles are there, not {least} to {most}")
        if torn:
            self.holes |= set(range(self.durable, there))
        self.holes -= set(range(there, self.next + 1))
        self.holes |= set(lost)
        self.next = self.durable = there
        for reader in self.readers.values():
            reader.held = set()
            if lossy:
                reader.unsure |= reader.fresh
                reader.unsure_waiting |= reader.waiting
                reader.fresh, reader.waiting = set(), {}
        self.sync_acks()
        self.note_gone()
