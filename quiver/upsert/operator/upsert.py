"""Commands in, differences out, epoch by epoch.

Three frontiers: commands for epochs below the *input* frontier are all there; differences of epochs
below the *persist* frontier are all in the collection; those below the *resume* frontier were when
this operator began. A command is eligible if its epoch is the one to be persisted next, and the
input is past it: then, and only then, the collection says what its key had before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quiver.errors import ClosedError, InputError
from quiver.schemas import same_type
from quiver.upsert.operator.step import Step
from quiver.upsert.rows import DIFF, Commands, Definition, Looked, Persisted, differences
from quiver.upsert.stash import Stash

__all__ = ["WINDOW_BYTES", "WINDOW_KEYS", "Upsert"]

WINDOW_KEYS: Final = 1 << 16
"""So many keys are looked up at a time."""
WINDOW_BYTES: Final = 256 << 20
"""Fewer, where their rows, of the commands and of the collection, are larger than that."""

Emit = Callable[[pa.Table], None]


class Upsert:
    """An operator on one collection; for one thread at a time.

    It knows nothing of the collection but what look-ups tell it.
    """

    def __init__(
        self,
        definition: Definition,
        resume_upper: int,
        *,
        window_keys: int = WINDOW_KEYS,
        window_bytes: int = WINDOW_BYTES,
        stash: Stash | None = None,
    ) -> None:
        self._definition = definition
        self._resume = resume_upper
        self._window, self._window_bytes = window_keys, window_bytes
        self._stash = Stash() if stash is None else stash
        self._input: int | None = 0
        self._persisted = 0
        self._next = 0
        self.ignored = 0
        """Commands of epochs that were persisted before this operator began."""

    @property
    def held(self) -> int | None:
        """The least time of what waits; None if nothing does."""
        return self._stash.first

    @property
    def waiting(self) -> int:
        """How many rows wait, some perhaps of one key and time."""
        return len(self._stash)

    @property
    def nbytes(self) -> int:
        """How much memory the rows that wait take, about."""
        return self._stash.nbytes

    def push(
        self, commands: Commands, time: int, *, diffs: npt.NDArray[np.int64] | None = None
    ) -> None:
        """Take commands of an epoch, which come behind all that were pushed for it before.

        ``diffs`` is for those who read them from a collection of differences: only such that were
        added are commands. Raises InputError for an epoch below the input frontier, and for other
        types than those of the definition, ClosedError once the input has ended.
        """
        if diffs is not None and len(diffs) and int(diffs.min()) <= 0:
            raise InputError(
                f"a command of epoch {time} is taken away: its diff is {int(diffs.min())}",
                hint="commands only come; a deletion is a command without a value",
            )
        self._check_types(commands)
        if self._input is None:
            raise ClosedError(f"a command of epoch {time} comes after the end of the input")
        if time < self._resume and self._input <= self._resume:
            self.ignored += len(commands)
            return
        if time < self._input:
            raise InputError(f"a command of epoch {time} comes late: the input is at {self._input}")
        self._stash.add(commands, time)

    def widen(self, definition: Definition) -> None:
        """Go on under a definition with wider values; what waits is cast to them."""
        for kind, other in zip(self._definition.key.types, definition.key.types, strict=True):
            if not same_type(kind, other):
                raise InputError(f"a key cannot change from {kind} to {other}")
        self._stash = self._stash.changed(lambda part: part.conform(definition))
        self._definition = definition

    def step(self, input_upper: int | None, persisted: Persisted, emit: Emit | None = None) -> Step:
        """Give out the differences of the epoch that is next, if the input is past it.

        ``input_upper`` None says that the input has ended. With ``emit`` differences go there,
        window by window, and not into the step. If a look-up or ``emit`` fails, everything is as
        before, and the step may be taken again.
        """
        self._advance(input_upper, persisted.upper)
        now = persisted.upper
        hydrated = now >= self._resume
        closed = input_upper is None or now < input_upper
        closed = closed and hydrated and now >= self._next
        counts = dict.fromkeys(
            ("eligible", "ineligible", "persisted", "added", "removed", "windows"), 0
        )
        counts["persisted"] = self._stash.drop_before(now)
        first = self._stash.first
        diffs: list[pa.Table] = []
        sealed = closed and first is not None and first <= now
        if sealed:
            self._drain(persisted, diffs.append if emit is None else emit, counts)
            counts["ineligible"] = self._stash.count(now + 1, input_upper)
        if closed:
            self._next = now + 1
        held = self._stash.first
        return Step(
            time=now if closed else None,
            diffs=tuple(diffs),
            held=held,
            frontier=held if held is not None else input_upper,
            sealed=sealed,
            hydrated=hydrated,
            counts=counts,
        )

    def _drain(self, persisted: Persisted, emit: Emit, counts: dict[str, int]) -> None:
        now = persisted.upper
        for window in self._stash.windows(now, self._window):
            for part, looked in self._looked_up(window, persisted):
                found = differences(part, looked, now)
                counts["windows"] += 1
                counts["eligible"] += len(part)
                if found.num_rows:
                    signs: Any = found.column(DIFF).to_numpy()
                    counts["added"] += int((signs > 0).sum())
                    counts["removed"] += int((signs < 0).sum())
                    emit(found)
        self._stash.drop(now)

    def _looked_up(
        self, window: Commands, persisted: Persisted
    ) -> Iterator[tuple[Commands, Looked]]:
        """Look keys up; in parts where what they have is too large to be laid side by side."""
        looked = persisted.lookup(window.hashes, window.keys)
        parts = -(-(window.nbytes + looked.rows.nbytes) // self._window_bytes)
        if parts <= 1 or len(window) == 1:
            yield window, looked
            return
        del looked
        step = max(len(window) // parts, 1)
        for start in range(0, len(window), step):
            yield from self._looked_up(window.slice(start, start + step), persisted)

    def _advance(self, input_upper: int | None, persist_upper: int) -> None:
        """Take note of frontiers, which never go back."""
        if self._input is None:
            if input_upper is not None:
                raise InputError(f"the input has ended and is at {input_upper} again")
        elif input_upper is not None and input_upper < self._input:
            raise InputError(f"the input goes back from {self._input} to {input_upper}")
        if persist_upper < self._persisted:
            raise InputError(
                f"the collection goes back from {self._persisted} to {persist_upper}",
                hint="look up in what the last append gave",
            )
        self._input, self._persisted = input_upper, persist_upper

    def _check_types(self, commands: Commands) -> None:
        wanted = (self._definition.state.field(name).type for name in ("key", "value"))
        for kind, array in zip(wanted, (commands.keys, commands.values), strict=True):
            if not same_type(kind, array.type):
                raise InputError(
                    f"commands are of {array.type}, the collection of {kind}",
                    hint="give prepare the definition of the collection",
                )
