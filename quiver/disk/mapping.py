"""Files in memory, without a descriptor that is kept for each: a process has a thousand of those.

The standard library's ``mmap`` keeps one as long as anybody looks at the map; a table of a scan
does so for each of its segments.
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Callable
from typing import Final, TypeAlias

from quiver.disk.calls import advise, map_pages, unmap_pages

__all__ = ["MAPPED", "PAGE", "Advice", "advise_map", "map_file", "map_of"]

PAGE: Final = mmap.PAGESIZE
Advice: TypeAlias = int | None

MAPPED: Final[dict[int, int]] = {}
"""How many bytes are mapped at an address, by this module, and looked at by somebody."""


class _Pages:
    """Pages of a file; whoever lets go of the last view of them unmaps them."""

    __slots__ = ("_address", "_length")

    def __init__(self, address: int, length: int) -> None:
        self._address, self._length = address, length
        MAPPED[address] = length

    def __del__(
        self,
        # Of modules nothing is left when the last views go, at the end of a process.
        forget: Callable[[int, None], int | None] = MAPPED.pop,
        unmap: Callable[[int, int], None] = unmap_pages,
    ) -> None:
        """Unmap them; they are no map of ours before, since another may come to their place."""
        forget(self._address, None)
        unmap(self._address, self._length)


def map_file(descriptor: int, length: int) -> memoryview:
    """Map the first ``length`` bytes of an open file read-only, of which there must be one.

    The view keeps the map alive, and nothing else: the file may be closed. Raises OSError.
    """
    import pyarrow as pa

    address = map_pages(descriptor, length)
    return memoryview(pa.foreign_buffer(address, length, _Pages(address, length))).cast("B")


def map_of(view: memoryview) -> tuple[int, int] | None:
    """Give address and length of the map that a view is a part of, or all; None for any other."""
    address: int | None = getattr(view.obj, "address", None)
    length = None if address is None else MAPPED.get(address)
    return None if address is None or length is None else (address, length)


def advise_map(address: int, advice: Advice, *, start: int, length: int) -> None:
    """Tell the system what will be done with ``[start, start + length)`` of a map, if it can hear.

    ``start`` must be that of a page.
    """
    if advice is not None and length > 0:
        with contextlib.suppress(OSError):
            advise(address + start, length, advice)
