"""A node's own entry in the metadata."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from quiver.chain.membership.member import (
    TEXT_MAX,
    Member,
    check_node_name,
    decode_member,
    encode_member,
    key_of,
)
from quiver.chain.metadata import Kept, Metadata, swap
from quiver.chain.peers import NodeState, as_fault
from quiver.clock import Clock
from quiver.errors import (
    CapacityError,
    DamageError,
    InputError,
    LockedError,
    MissingError,
    QuiverError,
    StorageError,
)

__all__ = ["BEAT_SECONDS", "Registration"]

BEAT_SECONDS: Final = 1.0
_RISE_BEATS: Final = 10
_TRIES_MAX: Final = 3


class Registration:
    """Says that a node is there, again and again. Safe for many threads."""

    def __init__(
        self,
        metadata: Metadata,
        name: str,
        *,
        address: str,
        host: str = "",
        room: Callable[[], tuple[int, int]],
        clock: Clock,
        rise: Callable[[int], int] | None = None,
    ) -> None:
        """Take what does not change; ``room`` gives the free and all bytes of the disk.

        ``rise`` is given the generation that is remembered, and keeps and gives a greater one.
        """
        if len(host) > TEXT_MAX or len(address) > TEXT_MAX:
            raise InputError(f"address and host have at most {TEXT_MAX} letters: {host!r:.80}")
        self._metadata = metadata
        self._name = check_node_name(name)
        self._address = address
        self._host = host
        self._room = room
        self._clock = clock
        self._lock = threading.Lock()
        self._has_beaten = False
        self._rise = rise
        self._beats = 0
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self.state: NodeState | None = NodeState.INITIALIZING
        self.fault: QuiverError | None = None
        """Why the last beat did not come through; None if it did."""

    def beat(self) -> Member:
        """Put the entry with the next counter.

        Raises LockedError if another node put one under this name since, and what metadata raise.
        """
        with self._lock:
            key = key_of(self._name)
            for _ in range(_TRIES_MAX):  # A beat of its own that was late may be first.
                kept, before = self._before(key)
                is_other = before is not None and before.address != self._address
                if is_other and self._has_beaten:
                    break
                member = self._next(before)
                data = encode_member(member)
                if swap(self._metadata, key, kept, data=data, clock=self._clock):
                    self._has_beaten = True
                    return member
                if not self._has_beaten:
                    break  # Two begin at once.
            raise LockedError(
                f"another node of the name {self._name} says that it is there",
                hint="give each node a name of its own",
            )

    def _before(self, key: str) -> tuple[Kept | None, Member | None]:
        """Give the entry that there is, and what it says."""
        try:
            kept = self._metadata.get(key)
        except MissingError:
            return None, None
        return kept, self._decoded(kept.data)

    def _next(self, before: Member | None) -> Member:
        counter, generation = (before.counter + 1, before.generation) if before else (1, 0)
        free, total = self._room()
        return Member(
            *(self._name, self._address, self._host, self.state),
            *(free, total, counter, self._risen(generation)),
        )

    def _risen(self, generation: int) -> int:
        """Have the generation rise at the first beat and each tenth one, if the disk has room."""
        is_due = self._beats % _RISE_BEATS == 0
        self._beats += 1
        if self._rise is not None and is_due:
            with suppress(StorageError, CapacityError):  # Others remember the one before it then.
                generation = self._rise(generation)
        return generation

    def remembered(self) -> int:
        """Give the generation that others remember; 0 if they know none."""
        try:
            found = self._decoded(self._metadata.get(key_of(self._name)).data)
        except MissingError:
            return 0
        return found.generation if found else 0

    def rival(self) -> str:
        """Give where another node of this name says that it is; empty if none does."""
        try:
            kept = self._metadata.get(key_of(self._name))
        except MissingError:
            return ""
        found = self._decoded(kept.data)
        is_other = found is not None and found.state and found.address != self._address
        return found.address if found and is_other else ""

    def _decoded(self, data: bytes) -> Member | None:
        try:
            return decode_member(data, key_of(self._name))
        except DamageError:
            return None  # It is one's own, and put anew.

    def start(self) -> None:
        """Beat each second by a thread of its own, also after metadata were out of reach."""
        thread = threading.Thread(target=self._run, name="quiver-beat", daemon=True)
        thread.start()
        self._thread = thread

    def stop(self, state: NodeState | None = None) -> None:
        """Beat no more, but for a last time with this state; None: offline.

        Who never said that it is there says nothing now: the name may be another's.
        """
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        self.state = state
        self._beats = 0  # A copy of the folder that was made while it ran is older from here on.
        if self._has_beaten:
            self.beat()

    def _run(self) -> None:
        while not self._over.wait(BEAT_SECONDS):
            try:
                self.beat()
                self.fault = None
            except Exception as error:  # noqa: BLE001 Else others take this node for gone.
                self.fault = as_fault(error, "a beat", node=self._name)
