"""One state of the queue as it was read, with the entries that are in pages."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from quiver.ship.queue.manifest import Entry, Manifest
from quiver.ship.queue.pages import PageCache
from quiver.ship.queue.placing import placed
from quiver.ship.queue.table import PageRef
from quiver.ship.queue.tail import Marks

__all__ = ["QueueView"]


class QueueView:
    """What is in the queue at one moment; it does not change. Pages are fetched when asked for."""

    def __init__(self, manifest: Manifest, pages: PageCache, *, place: str) -> None:
        self.manifest = manifest
        self.place = place
        self._pages = pages

    @property
    def epoch(self) -> int:
        """Of the newest consumer; 0 if there was none."""
        return self.manifest.footer.epoch

    @property
    def next_sequence(self) -> int:
        """The number that the next append gets."""
        return self.manifest.footer.next_sequence

    @property
    def entry_count(self) -> int:
        """How many entries are waiting."""
        with placed(self.place):
            return self.manifest.count

    @property
    def marks(self) -> Marks:
        """By store and core, the highest segment that was appended."""
        with placed(self.place):
            return self.manifest.marks

    @property
    def pages(self) -> tuple[PageRef, ...]:
        """The pages that it names, oldest first."""
        return self.manifest.table.pages

    def entries(
        self, after: int | None = None, *, limit: int | None = None, kept: bool = False
    ) -> Iterator[Entry]:
        """Go through entries that wait, oldest first, beyond number ``after``.

        With ``kept`` also the one that is dequeued and stays for its marks: its batch is still
        named. Raises DamageError behind the last good one; MissingError and RemoteError of pages.
        """
        found = self._entries(-1 if after is None else after, kept=kept)
        return found if limit is None else islice(found, limit)

    def _entries(self, after: int, *, kept: bool) -> Iterator[Entry]:
        manifest = self.manifest
        least = max(after + 1, manifest.table.floor)
        for page in manifest.table.pages:
            if page.last >= least:
                yield from (e for e in self._pages.entries(page) if e.sequence >= least)
        with placed(self.place):
            for raw in manifest.raw_entries():
                if raw.sequence > after:
                    entry = manifest.entry(raw)
                    if kept or not entry.is_acked:
                        yield entry
