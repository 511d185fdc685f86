"""Bundles of all cores of a store for one subscriber, from outside and without its lock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from quiver.units import SECOND, parse_duration

if TYPE_CHECKING:
    from quiver.clock import Clock
    from quiver.consumer import Consumer
    from quiver.disk import Disk
    from quiver.subscriber import BundleHandle

__all__ = ["Taking", "taking"]

_LOOK: Final = 0.25
"""Seconds between two looks at all cores."""
_TURN: Final = 10_000
"""Bundles of one core in a row, if others have some."""


@contextmanager
def taking(disk: Disk, folder: str, name: str, *, clock: Clock | None = None) -> Iterator[Taking]:
    """Go on as a subscriber for the length of a block; its end commits what was acked."""
    from quiver.clock import SystemClock

    with ExitStack() as stack:
        yield Taking(disk, folder, name, stack=stack, clock=clock or SystemClock())


class Taking:
    """A source for an exporter: a consumer for each core, one after the other.

    Files hold bundles of one core, so it stays with a core while that one gives any, and while
    others are waited for to share a file.
    """

    def __init__(
        self, disk: Disk, folder: str, name: str, *, stack: ExitStack, clock: Clock
    ) -> None:
        self._disk, self._folder, self._name = disk, folder, name
        self._stack, self._clock = stack, clock
        self._consumers: dict[int, Consumer] = {}
        self._order: list[Consumer] = []
        self._taken = 0
        self._closed = False
        self._find()

    def _find(self) -> None:
        """Follow the cores that are there by now."""
        import quiver
        from quiver.cli.inspect import core_numbers

        for core in core_numbers(self._disk):
            if core not in self._consumers and self._is_made(core):
                consumer = quiver.subscribe(self._folder, self._name, core=core)
                self._consumers[core] = self._stack.enter_context(consumer)
                self._order.append(consumer)

    def _is_made(self, core: int) -> bool:
        """Whether a core has what a subscriber needs; another process may be about to make it."""
        from quiver.acks.opening import LOG_NAME
        from quiver.cli.inspect import listing
        from quiver.engine.core import core_folder

        folder = core_folder(core)
        has_log = self._disk.stat(f"{folder}/acks/{LOG_NAME}") is not None
        return has_log or bool(listing(self._disk, f"{folder}/segments"))

    def poll(self) -> BundleHandle | None:
        """Claim the next bundle if one is ready."""
        return self.next(0)

    def next(self, timeout: float | str | None = None) -> BundleHandle | None:
        """Wait for the next bundle; of the core that gave the last one, if there is a timeout."""
        if timeout is None:
            self._turn()
            return self._wait()
        rest_ns = parse_duration(timeout, key="timeout")
        if not rest_ns:
            return self._look()
        limit_ns = self._clock.monotonic_ns() + rest_ns
        while not self._closed and self._order and rest_ns > 0:
            found = self._order[0].next(min(rest_ns / SECOND, _LOOK))
            if found is not None:
                return self._count(found)
            rest_ns = limit_ns - self._clock.monotonic_ns()
        return None

    def _wait(self) -> BundleHandle | None:
        while not self._closed:
            self._find()
            found = self._look()
            if found is None and self._order:
                found = self._order[0].next(_LOOK)
            if found is not None:
                return found
        return None

    def _look(self) -> BundleHandle | None:
        """Ask each core once, this one first, unless its turn is over."""
        for _ in self._order:
            found = None if self._closed else self._order[0].poll()
            if found is not None:
                return self._count(found)
            self._turn()
        return None

    def _count(self, found: BundleHandle) -> BundleHandle:
        self._taken += 1
        if self._taken >= _TURN:
            self._turn()
        return found

    def _turn(self) -> None:
        """Let the next core have its turn."""
        self._taken = 0
        self._order = self._order[1:] + self._order[:1]

    def check_whole(self) -> None:
        """Raise DamagedEntry if a segment was passed over, of which nobody knows what it holds."""
        from quiver.consumer import check_whole

        for consumer in self._consumers.values():
            check_whole(consumer)

    def commit(self) -> None:
        """Return once all that was acked survives a power cut."""
        for consumer in self._order:
            consumer.commit()

    def close(self) -> None:
        """Give no more bundles; those given may still be acked."""
        self._closed = True
