"""How a store is fed into a collection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow.compute as pc

from quiver.errors import InputError
from quiver.units import parse_bytes, parse_duration
from quiver.upsert.rows.prepare import Misfit

__all__ = ["BUCKETS", "EVERY", "HISTORY", "ROWS", "SIZE", "FeedOptions", "Misfit"]

ROWS: Final = 1_000_000
SIZE: Final = "64MiB"
EVERY: Final = "1s"
BUCKETS: Final = 16
HISTORY: Final = 100
BUCKETS_MAX: Final = 1 << 16

MISFITS: Final[tuple[Misfit, ...]] = ("fail", "error")


@dataclass(frozen=True, slots=True)
class FeedOptions:
    """Which columns mean what, and how much goes into an epoch; the defaults are for most."""

    slot: str
    key: Sequence[str]
    value: Sequence[str] | None = None
    """The columns of the value; None: all that are left."""
    order_by: Sequence[str] = ()
    """Of several commands for a key in one epoch the greatest by these counts, then the first."""
    delete_when: str | pc.Expression | None = None
    """A column of booleans, or a condition; None: where all columns of the value are null."""
    buckets: int | None = None
    """Among how many buckets keys are spread; of a collection that is there it must be its own."""
    rows: int = ROWS
    """Rows of an epoch; a bundle is never divided."""
    size: int | str = SIZE
    """Arrow bytes of an epoch likewise."""
    every: float | str = EVERY
    """How long the first rows of an epoch wait for others, where what comes is followed."""
    history: int = HISTORY
    """How many epochs back the collection stays readable."""
    misfit: Misfit = "fail"
    """What becomes of values that no common type holds: the end, or error rows."""
    pass_damaged: bool = False
    """Whether to go on behind a segment that cannot be opened."""
    pass_acked: bool = False
    """Whether to go on behind bundles that the subscriber acked, and the collection has not."""
    limits: tuple[int, int] = field(init=False)
    """Size in bytes, and ``every`` in nanoseconds."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        for name in ("key", "value", "order_by"):
            names = getattr(self, name)
            if isinstance(names, str):
                object.__setattr__(self, name, (names,))
        if not self.key:
            raise InputError("key: no column is named", hint="a collection needs a key")
        for name, most in (("rows", 1 << 62), ("buckets", BUCKETS_MAX), ("history", 1 << 62)):
            value = getattr(self, name)
            if value is None and name == "buckets":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
                raise InputError(f"{name}: {value!r:.100} is none", hint=f"1 to {most:,}")
        if self.misfit not in MISFITS:
            raise InputError(f"misfit: {self.misfit!r:.100} is none", hint=" or ".join(MISFITS))
        size, every = parse_bytes(self.size, key="size"), parse_duration(self.every, key="every")
        if size < 1:
            raise InputError("size: 0 is none", hint="such as 64MiB")
        object.__setattr__(self, "limits", (size, every))
