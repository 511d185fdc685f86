"""How much one request may hold: bytes from the network decide about memory, so they are held."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from quiver.errors import InputError

__all__ = ["DEFAULT_LIMITS", "ITEM_VALUE_DEPTH", "Limits"]

ITEM_VALUE_DEPTH: Final = 5
"""As deep in a request lies the value of an attribute of a log record or span."""

_ROWS_MAX: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Limits:
    """What a request may hold before it is refused, and a batch before another is begun."""

    items: int = 1 << 20
    """Log records, spans or metrics of a request."""
    parts: int = 1 << 22
    """Messages of any one kind in a request: attributes, events, links, points, exemplars."""
    depth: int = 100
    """How deep messages may lie in each other; libraries of protobuf have 100."""
    batch_items: int = _ROWS_MAX
    """Items of a batch, whose ids have 16 bits: more of them make several batches."""

    def __post_init__(self) -> None:
        """Refuse what ids could not hold."""
        if not 0 < self.batch_items <= _ROWS_MAX:
            raise InputError(f"batch_items is {self.batch_items}, not from 1 to {_ROWS_MAX}")


DEFAULT_LIMITS: Final = Limits()
