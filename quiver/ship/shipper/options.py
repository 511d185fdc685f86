"""What a shipper may be told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from quiver.engine.start import Start
from quiver.errors import InputError
from quiver.ship.batch import COMPRESSIONS, Compression
from quiver.ship.shipper.cargo import DAMAGED, OnDamage

__all__ = ["BATCH_BYTES", "ShipOptions"]

BATCH_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class ShipOptions:
    """How segments are shipped; the defaults are for most."""

    slots: tuple[str, ...] | None = None
    """The slots to ship; None: all. Bundles that have none of them are acked."""
    damaged: OnDamage = "skip"
    """What is damaged is given up and set aside, or nothing behind it is shipped."""
    start: Start = "earliest"
    """Where a new subscriber starts."""
    batch_bytes: int = BATCH_BYTES
    """Segments share a batch up to this; one that is larger has its own."""
    compression: Compression = "none"
    uploads: int = 4
    """Batches that are under way at a time; above 1, two segments of each are read at once."""
    memory_bytes: int = 256 << 20
    """Bytes of segments that are under way at a time; a batch that is larger goes alone."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        if self.slots is not None and not self.slots:
            raise InputError("slots: no slot is named", hint="leave it out for all of them")
        if self.damaged not in DAMAGED:
            raise InputError(f"damaged: {self.damaged!r} is none", hint=" or ".join(DAMAGED))
        if self.compression not in COMPRESSIONS:
            hint = " or ".join(COMPRESSIONS)
            raise InputError(f"compression: {self.compression!r} is none", hint=hint)
        for name in ("batch_bytes", "uploads", "memory_bytes"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}: {getattr(self, name)} is below 1")
