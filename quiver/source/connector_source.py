"""Many splits as one source: a thread for each, in turn, within bounds.

::

    reader of split a --- parse --> [ queue a ] --.
    reader of split b --- parse --> [ queue b ] ---+--> poll, in turn
    reader of split c --- parse --> [ queue c ] --'

Each split has its share of the bounds, so that one that is fast or stuck takes nothing from the
others; and each may always have one batch, however large. The splits do not change: another set is
another source, made from the states of this one, and nothing that was read and not taken counts.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from quiver.errors import ClosedError, ConfigError, InputError
from quiver.source.lane import Lane, Making, SourceChunk
from quiver.source.parser import Parser
from quiver.source.protocols import Connector, Split, States

__all__ = ["BYTES_MAX", "ConnectorSource", "SourceLimits"]

BYTES_MAX: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class SourceLimits:
    """How much is read ahead over all splits; each has an even share, and at least a batch."""

    bytes_max: int = BYTES_MAX
    batches_max: int = 64

    def __post_init__(self) -> None:
        if self.bytes_max < 1 or self.batches_max < 1:
            raise ConfigError("at least a byte and a batch have to be read", hint="SourceLimits()")


class ConnectorSource:
    """Reads ``splits`` of a connector, each from its state on.

    One thread takes from it; any may close it. ``bell`` is told whenever there may be something to
    take. With ``threads=False`` nothing is read ahead: whoever polls reads, for as long as that
    takes, and nothing wakes it.
    """

    def __init__(
        self,
        connector: Connector,
        splits: Iterable[Split],
        *,
        states: States | None = None,
        columns: Sequence[str] | None = None,
        parser: Parser | None = None,
        limits: SourceLimits | None = None,
        threads: bool = True,
        bell: threading.Condition | None = None,
    ) -> None:
        """Begin to read. ``columns`` go to the readers, or are none of theirs with a parser."""
        if parser is not None and columns is not None:
            raise InputError(
                "columns are given twice: by name and by the parser's schema",
                hint="name in the schema of the parser what is wanted",
            )
        known = dict(states or {})
        making = Making(connector, columns, parser)
        limits = limits or SourceLimits()
        self._bell = bell or threading.Condition()
        self._lanes = [Lane(making, split, known.get(split.id)) for split in splits]
        if len({lane.split.id for lane in self._lanes}) < len(self._lanes):
            raise InputError("a split is given twice", hint="each has an id of its own")
        self._turn = 0
        self._is_closed = False
        self._threads: list[threading.Thread] = []
        share = max(len(self._lanes), 1)
        for lane in self._lanes if threads else []:
            arguments = (self._bell, limits.bytes_max // share, limits.batches_max // share)
            thread = threading.Thread(
                target=lane.fill, args=arguments, name=f"quiver-{lane.split.id}", daemon=True
            )
            self._threads.append(thread)
            thread.start()
        self._reads_ahead = threads

    @property
    def states(self) -> dict[str, str | None]:
        """What follows what was taken, of each split; None for one of which nothing was."""
        with self._bell:
            return {lane.split.id: lane.state for lane in self._lanes}

    @property
    def drained(self) -> set[str]:
        """The splits of which nothing will ever follow what was taken."""
        with self._bell:
            return {lane.split.id for lane in self._lanes if lane.is_drained and not lane.queue}

    def is_ready(self) -> bool:
        """Whether a poll would give something, or raise; not known if nothing is read ahead."""
        with self._bell:
            return any(lane.queue or lane.error is not None for lane in self._lanes)

    def poll(self) -> SourceChunk | None:
        """Take the next chunk if there is one; each split in its turn.

        What failed in a split is raised when all that was read before it has been taken. The
        source is of no more use then: close it, and make another one from ``states``.
        """
        with self._bell:
            if self._is_closed:
                raise ClosedError("the source is closed", hint="make another one from its states")
            for step in range(len(self._lanes)):
                place = (self._turn + step) % len(self._lanes)
                lane = self._lanes[place]
                if not lane.queue and lane.error is None and not self._reads_ahead:
                    self._read(lane)
                if lane.queue:
                    self._turn = place + 1
                    self._bell.notify_all()  # There is room for the next.
                    return lane.take()
                if lane.error is not None:
                    self._turn = place + 1
                    raise lane.error
        return None

    def next(self, timeout: float) -> SourceChunk | None:
        """Take the next chunk, or None if there is none within ``timeout`` seconds.

        Without splits nothing ever comes, and nothing ends.
        """
        with self._bell:
            found = self.poll()
            if found is None and timeout > 0:
                self._bell.wait(timeout)
                found = None if self._is_closed else self.poll()
            return found

    def close(self) -> None:
        """Stop reading, wake who waits, and return once every reader is let go."""
        with self._bell:
            self._is_closed = True
            self._bell.notify_all()
        for lane in self._lanes:
            lane.close(self._bell)
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _read(self, lane: Lane) -> None:
        if lane.is_drained:
            return
        try:
            chunk = lane.read(0)
        except Exception as error:  # noqa: BLE001 It is raised in its turn.
            lane.error = error
            return
        if chunk is not None:
            lane.put(chunk)
