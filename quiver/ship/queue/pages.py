"""Pages as they are read: fetched once, checked, and a few of them kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from quiver.disk import Bytes
from quiver.errors import DamagedEntry
from quiver.ship.queue.format import walk
from quiver.ship.queue.manifest import Entry, entry_at
from quiver.ship.queue.placing import placed
from quiver.ship.queue.table import PageRef, decode_page

__all__ = ["PageCache"]

_KEPT_MAX: Final = 4


class PageCache:
    """The entries of pages, by name. Safe for many threads."""

    def __init__(self, fetch: Callable[[str], Bytes], *, place: str) -> None:
        """Fetch pages with ``fetch``; ``place`` is how messages call the queue."""
        self._fetch = fetch
        self._place = place
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[Entry, ...]] = OrderedDict()

    def entries(self, page: PageRef) -> tuple[Entry, ...]:
        """Give all entries of a page; raises MissingError, RemoteError, DamageError."""
        with self._lock:
            known = self._kept.get(page.name)
            if known is not None:
                self._kept.move_to_end(page.name)
                return known
        with placed(f"{self._place}/{page.name}"):
            found = _decoded(memoryview(self._fetch(page.name)).cast("B"), page)
        with self._lock:
            self._kept[page.name] = found
            while len(self._kept) > _KEPT_MAX:
                self._kept.popitem(last=False)
        return found


def _decoded(data: memoryview, ref: PageRef) -> tuple[Entry, ...]:
    page = decode_page(data)
    expected = ref.object_bytes, ref.entry_count, ref.crc32c
    if (len(data), page.entry_count, page.crc32c) != expected:
        raise DamagedEntry(
            "a page is not the one that the manifest names",
            expected=f"{ref.object_bytes} bytes, {ref.crc32c:#010x}",
            found=f"{len(data)} bytes, {page.crc32c:#010x}",
        )
    return tuple(entry_at(page.area, raw) for raw in walk(page.area, page.entry_count))
