"""What holds for all copies of a node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from quiver.chain.copies.entries import ENTRY_BYTES_MAX
from quiver.chain.peers import BlockName, Finished
from quiver.errors import ClosedError, InputError, MissingError, QuiverError

__all__ = ["CopyRules", "bytes_of", "check_length", "not_here", "said", "without_log"]

_BESIDE_BYTES: Final = 8_192
"""What a copy takes beside its entries: its state, and what is before and behind them."""


@dataclass(frozen=True, slots=True)
class CopyRules:
    """What holds for all copies of a node."""

    node: str
    boot: bytes = bytes(16)
    """Of the machine, as it runs now; another one says that its power was gone."""
    entry_bytes_max: int = 256 << 20
    block_bytes_max: int = 4 << 30
    """No block grows beyond, whatever is sent."""

    def __post_init__(self) -> None:
        """Check that entries can be read back."""
        if not 0 < self.entry_bytes_max <= ENTRY_BYTES_MAX:
            raise InputError(f"entry_bytes_max is {self.entry_bytes_max}")


def said(name: BlockName) -> str:
    """Name a block in a sentence."""
    return f"block {name.number} of {name.partition}"


def bytes_of(log_bytes: int, finished: Finished | None) -> int:
    """Give what a copy takes, with the segment that is to be made of its log."""
    return _BESIDE_BYTES + log_bytes + (finished.size if finished else log_bytes)


def check_length(name: BlockName, length: int, rules: CopyRules) -> None:
    """Raise InputError if a block would be longer than any may be."""
    if length > rules.block_bytes_max:
        raise InputError(
            f"{said(name)} would have {length:,} bytes, the most is {rules.block_bytes_max:,}"
        )


def not_here(name: BlockName, node: str, *, is_closed: bool) -> QuiverError:
    """Say that a copy is nobody's any more, or another one's: its node may have been begun anew."""
    if is_closed:
        return ClosedError(f"{node} was closed")
    return MissingError(f"{said(name)} was dropped here", path=node)


def without_log(name: BlockName, node: str) -> MissingError:
    """Say that a copy was fetched, or has let go of its log."""
    return MissingError(f"{said(name)} has no log here", path=node, hint="its segment can be read")
