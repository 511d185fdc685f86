"""What one step of an operator did."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

__all__ = ["Step"]


@dataclass(frozen=True, slots=True)
class Step:
    """What a step gave out, and how far it is.

    ``time`` is the epoch to be appended now, with ``diffs`` or with nothing; None while the input
    may still bring commands for it, before the operator is ``hydrated``, and once a step has given
    it. ``frontier`` says that no difference for an earlier epoch will come; None that none will
    come at all.
    """

    time: int | None
    diffs: tuple[pa.Table, ...]
    held: int | None
    """The least time of what still waits; None if nothing does."""
    frontier: int | None
    sealed: bool = False
    """Whether commands were taken out of the stash, which is done only if some may be given out."""
    hydrated: bool = True
    """Whether the collection is where the operator was to resume."""
    counts: dict[str, int] = field(default_factory=dict)
    """``eligible``, ``ineligible``, ``persisted``: commands by what became of them; ``added``,
    ``removed``: differences; ``windows``: look-ups."""

    @property
    def done(self) -> bool:
        """Whether the input has ended and everything is given out."""
        return self.frontier is None
