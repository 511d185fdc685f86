"""What holds for all copies of a node."""

from __future__ import annotations

from dataclasses import dataclass

from quiver.chain.copies.entries import ENTRY_BYTES_MAX
from quiver.chain.peers import BlockName
from quiver.errors import InputError

__all__ = ["CopyRules", "said"]


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
