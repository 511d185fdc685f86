"""Commands for one time and a share of the hashes: what is reduced, and what came since.

What came since is reduced into the rest once it is as long, so that a command is touched twice or
so in all, and at most twice as many are kept as there are keys, and some few more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from quiver.upsert.rows import Commands, reduce

__all__ = ["ROWS_LOOSE", "Shelf"]

ROWS_LOOSE: Final = 1 << 14
"""So many rows may come before it is worth the while to reduce them."""
_BYTES_LOOSE: Final = 16 << 20


class Shelf:
    """A share of what waits for one time."""

    def __init__(self) -> None:
        self._whole: Commands | None = None
        self._loose: list[Commands] = []
        self._loose_rows = 0
        self._loose_bytes = 0

    def __len__(self) -> int:
        """How many rows it keeps, some perhaps of one key."""
        return self._loose_rows + (0 if self._whole is None else len(self._whole))

    @property
    def nbytes(self) -> int:
        """How much memory the rows take, about."""
        return self._loose_bytes + (0 if self._whole is None else self._whole.nbytes)

    def add(self, commands: Commands) -> None:
        """Take commands that came later than all before."""
        self._loose.append(commands)
        self._loose_rows += len(commands)
        self._loose_bytes += commands.nbytes
        rows, size = (0, 0) if self._whole is None else (len(self._whole), self._whole.nbytes)
        if self._loose_rows >= max(rows, ROWS_LOOSE) or self._loose_bytes >= max(
            size, _BYTES_LOOSE
        ):
            self.settle()

    def settle(self) -> Commands | None:
        """Reduce to one command for each key, sorted by hash, and give them; None if there is none.

        The left one wins a tie, so what was there goes first.
        """
        if self._loose:
            parts = [*([] if self._whole is None else [self._whole]), *self._loose]
            self._whole = reduce(Commands.concat(parts))
            self._loose, self._loose_rows, self._loose_bytes = [], 0, 0
        return self._whole

    def windows(self, rows: int) -> Iterator[Commands]:
        """Give all commands, so many keys at a time; they stay."""
        whole = self.settle()
        if whole is not None:
            for start in range(0, len(whole), rows):
                yield whole.slice(start, start + rows)
