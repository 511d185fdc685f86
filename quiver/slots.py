"""The slot table: which payload each of a bundle's up to 64 places holds.

It is the contract between a store and whoever embeds it, fixed when the store is created; its
digest stands in the header of each WAL file. This module knows no Arrow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import blake3

from quiver.errors import InputError

__all__ = ["SLOTS_MAX", "Slot", "SlotDifference", "SlotTable"]

SLOTS_MAX = 64
"""A bundle's slots are bits of one u64 on disk."""

LAYOUT_RULES = "quiver-layout 1; payload=arrow-ipc-stream; fingerprint=blake3; checksum=crc32c"
"""What else an implementation must agree on to read the entries of a WAL."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_PAYLOAD_TYPE_MAX = 0xFFFF


@dataclass(frozen=True, slots=True, order=True)
class Slot:
    """One place in a bundle: its bit, its name, and the payload type id written on disk.

    ``event_time`` names the slot's timestamp column that says when a row happened, if it has one;
    segments record its range. It is no part of the layout and may change between openings.
    """

    slot_id: int
    name: str
    payload_type_id: int
    event_time: str = field(default="", compare=False)

    def __str__(self) -> str:
        """Name it with its id, and its payload type id if that is another one."""
        kind = "" if self.payload_type_id == self.slot_id else f", type {self.payload_type_id}"
        return f"{self.name} (id {self.slot_id}{kind})"


class SlotTable:
    """An immutable set of slots with distinct ids and names, in order of slot id."""

    __slots__ = ("_by_id", "_by_name", "ids")

    def __init__(self, slots: Iterable[Slot]) -> None:
        """Check and keep the slots; raises InputError if one is out of range or repeated."""
        self._by_id: dict[int, Slot] = {}
        self._by_name: dict[str, Slot] = {}
        checked = [_check(slot) for slot in slots]
        for slot in sorted(checked):
            if slot.slot_id in self._by_id or slot.name in self._by_name:
                raise InputError(f"slot {slot.name!r} (id {slot.slot_id}) is in the table twice")
            self._by_id[slot.slot_id] = slot
            self._by_name[slot.name] = slot
        self.ids: Final[Mapping[str, int]] = {slot.name: slot.slot_id for slot in self}
        """Slot ids by name."""
        if not self._by_id:
            raise InputError("a slot table needs at least one slot", hint='slots=["events"]')

    @classmethod
    def of(cls, slots: SlotTable | Mapping[str, int] | Iterable[str | Slot]) -> SlotTable:
        """Make a table from names in order, from a mapping of name to slot id, or from slots.

        The payload type id of a slot made this way equals its slot id.
        """
        if isinstance(slots, SlotTable):
            return slots
        if isinstance(slots, str):
            raise InputError(f"slots: {slots!r} is one string", hint=f'say slots=["{slots}"]')
        if isinstance(slots, Mapping):
            return cls(Slot(slot_id, name, slot_id) for name, slot_id in slots.items())
        try:
            items = list(slots)
        except TypeError as error:
            raise InputError(f"slots: {slots!r} is not a list of names") from error
        if len(items) > SLOTS_MAX:
            raise InputError(
                f"{len(items)} slots: a bundle has at most {SLOTS_MAX}",
                hint="put rarely used payloads into one slot with a type column, or use two stores",
            )
        return cls(s if isinstance(s, Slot) else Slot(i, s, i) for i, s in enumerate(items))

    def digest(self) -> bytes:
        """Digest of the layout, 16 bytes: which slots there are, and how entries are written.

        Tuning knobs are no part of it: a change of sizes never makes a store unreadable.
        """
        lines = [LAYOUT_RULES, *(f"{s.slot_id}\t{s.payload_type_id}\t{s.name}" for s in self)]
        return blake3.blake3("\n".join(lines).encode()).digest(length=16)

    def __getitem__(self, key: str | int) -> Slot:
        """Find a slot by name or by id; raises InputError that lists the known ones."""
        slot = self._by_name.get(key) if isinstance(key, str) else self._by_id.get(key)
        if slot is None:
            known = ", ".join(self._by_name)
            raise InputError(f"no slot {key!r} in this store", hint=f"its slots are: {known}")
        return slot

    def __contains__(self, key: object) -> bool:
        """Whether a slot of that name or id exists."""
        return key in self._by_name or key in self._by_id

    def __iter__(self) -> Iterator[Slot]:
        """Go through the slots in order of slot id."""
        return iter(self._by_id.values())

    def __len__(self) -> int:
        """How many slots there are."""
        return len(self._by_id)

    def __eq__(self, other: object) -> bool:
        """Whether both tables hold the same slots."""
        return isinstance(other, SlotTable) and self._by_id == other._by_id

    def __hash__(self) -> int:
        """Equal tables hash alike."""
        return hash(tuple(self._by_id.values()))

    def __repr__(self) -> str:
        """Name the slots in order."""
        return f"SlotTable({', '.join(f'{s.slot_id}:{s.name}' for s in self)})"


@dataclass(frozen=True, slots=True)
class SlotDifference:
    """What two slot tables disagree about, slot by slot: that of a store and one asked for.

    A slot is the same one in both if it has the same name, or else the same id.
    """

    only_store: tuple[Slot, ...]
    only_asked: tuple[Slot, ...]
    changed: tuple[tuple[Slot, Slot], ...]
    """The slot in the store, and as it was asked for."""

    @classmethod
    def between(cls, store: SlotTable, asked: SlotTable) -> SlotDifference:
        """Compare the table of a store with the one that somebody asks for."""
        pairs = [(slot, asked[slot.name]) for slot in store if slot.name in asked]
        old = {slot.slot_id: slot for slot in store if slot.name not in asked}
        new = {slot.slot_id: slot for slot in asked if slot.name not in store}
        pairs += [(old.pop(slot_id), new.pop(slot_id)) for slot_id in sorted(old.keys() & new)]
        changed = tuple(sorted(pair for pair in pairs if pair[0] != pair[1]))
        return cls(tuple(old.values()), tuple(new.values()), changed)

    def __str__(self) -> str:
        """Say it in one line."""
        parts = []
        for where, slots in (("in the store", self.only_store), ("asked for", self.only_asked)):
            if slots:
                parts.append(f"only {where}: {', '.join(str(slot) for slot in slots)}")
        if self.changed:
            both = (f"{a} in the store is {b}" for a, b in self.changed)
            parts.append(f"different: {', '.join(both)}")
        return "; ".join(parts)

    def options(self) -> str:
        """Give the options of ``quiver migrate`` that lead from the store to what is asked for.

        Empty if no options do: a slot keeps its id.
        """
        words = [f"--drop {slot.name}" for slot in self.only_store]
        for slot in self.only_asked:
            words.append(f"--slot {slot.name}={slot.slot_id}")
            if slot.payload_type_id != slot.slot_id:
                words.append(f"--type {slot.name}={slot.payload_type_id}")
        for old, new in self.changed:
            if old.slot_id != new.slot_id:
                return ""
            if old.name != new.name:
                words.append(f"--rename {old.name}={new.name}")
            if old.payload_type_id != new.payload_type_id:
                words.append(f"--type {new.name}={new.payload_type_id}")
        return " ".join(words)


def _check(slot: Slot) -> Slot:
    if not isinstance(slot.name, str) or not _NAME.fullmatch(slot.name):
        raise InputError(
            f"slot name {slot.name!r} is not allowed",
            hint="letters, digits, dot, dash and underscore; 1 to 128; first a letter or digit",
        )
    for what, value, limit in (
        ("slot id", slot.slot_id, SLOTS_MAX - 1),
        ("payload type id", slot.payload_type_id, _PAYLOAD_TYPE_MAX),
    ):
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= limit:
            raise InputError(f"{what} {value!r} of slot {slot.name!r} is not within 0..{limit}")
    return slot
