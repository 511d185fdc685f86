"""A set of bundle indices of one segment, small whatever the order in which they come.

Indices are kept by 4,096 at a time, each such page as one whole number with a bit for each: a page
that is full or empty costs nothing, and a segment of 10,000,000 bundles at most 1.5 MB.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

__all__ = ["BundleSet"]

_PAGE: Final = 1 << 12
_FULL: Final = (1 << _PAGE) - 1


class BundleSet:
    """Bundle indices, of which most are alike over long stretches."""

    __slots__ = ("_full", "_pages", "count")

    def __init__(self, runs: Iterable[tuple[int, int]] = ()) -> None:
        """Start with these runs (first, count), in any order, overlapping or not."""
        self._pages: dict[int, int] = {}
        self._full = 0  # All pages below this one are full.
        self.count = 0
        for first, count in runs:
            self.add(first, count)

    def copy(self) -> BundleSet:
        """Give another set with the same indices."""
        other = BundleSet()
        other._pages, other._full = dict(self._pages), self._full
        other.count = self.count
        return other

    def add(self, first: int, count: int = 1) -> int:
        """Put a run in; give how many of its indices are new."""
        if count == 1:
            page, place = divmod(first, _PAGE)
            held = self._pages.get(page, 0)
            more = held | 1 << place
            if more == held:
                return 0
            self._pages[page] = _FULL if more == _FULL else more
            self.count += 1
            return 1
        newly = 0
        for page, bits in _bits_of(first, count):
            held = self._pages.get(page, 0)
            new = bits & ~held
            if new:
                newly += new.bit_count()
                self._pages[page] = _FULL if held | bits == _FULL else held | bits
        self.count += newly
        return newly

    def remove(self, first: int, count: int = 1) -> int:
        """Take a run out; give how many of its indices were in."""
        gone = 0
        for page, bits in _bits_of(first, count):
            held = self._pages.get(page, 0)
            old = bits & held
            if not old:
                continue
            gone += old.bit_count()
            self._full = min(self._full, page)
            if held == old:
                del self._pages[page]
            else:
                self._pages[page] = held ^ old
        self.count -= gone
        return gone

    def next_absent(self, index: int) -> int:
        """Give the least index that is not in the set and not below ``index``."""
        page, place = divmod(index, _PAGE)
        while self._pages.get(self._full) == _FULL:
            self._full += 1
        if page < self._full:
            page, place = self._full, 0
        while True:
            held = self._pages.get(page, 0)
            if held != _FULL:
                absent = ~(held >> place)
                place += (absent & -absent).bit_length() - 1
                if place < _PAGE:
                    return page * _PAGE + place
            page, place = page + 1, 0

    def next_present(self, index: int, stop: int) -> int:
        """Give the least index in the set that is not below ``index``; ``stop`` if none is lower.

        ``index`` is at most ``stop``.
        """
        page, place = divmod(index, _PAGE)
        while page * _PAGE < stop:
            held = self._pages.get(page, 0) >> place
            if held:
                return min(page * _PAGE + place + (held & -held).bit_length() - 1, stop)
            page, place = page + 1, 0
        return stop

    def runs(self) -> Iterator[tuple[int, int]]:
        """Go through the runs (first, count), ascending and apart."""
        return _joined((page * _PAGE, self._pages[page]) for page in sorted(self._pages))

    def gaps(self, first: int, count: int) -> Iterator[tuple[int, int]]:
        """Go through the runs (first, count) of what is missing from a run."""
        return _joined(
            (page * _PAGE, bits & ~self._pages.get(page, 0))
            for page, bits in _bits_of(first, count)
        )

    def gap_count(self, first: int, count: int) -> int:
        """Say how many runs ``gaps`` would give, without going through them."""
        found = open_before = 0
        for page, bits in _bits_of(first, count):
            missing = bits & ~self._pages.get(page, 0)
            found += (missing & ~(missing << 1 | open_before)).bit_count()
            open_before = missing >> (_PAGE - 1)
        return found

    def __contains__(self, index: object) -> bool:
        """Whether the index is in the set."""
        if not isinstance(index, int) or index < 0:
            return False
        page, place = divmod(index, _PAGE)
        return bool(self._pages.get(page, 0) >> place & 1)

    def __eq__(self, other: object) -> bool:
        """Whether both hold the same indices."""
        return isinstance(other, BundleSet) and self._pages == other._pages

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Give the runs as half-open ranges."""
        inside = ", ".join(f"{first}:{first + count}" for first, count in self.runs())
        return f"BundleSet({inside})"


def _bits_of(first: int, count: int) -> Iterator[tuple[int, int]]:
    """Split a run into its pages, each with the bits of it."""
    stop = first + count
    while first < stop:
        page, place = divmod(first, _PAGE)
        here = min(stop - first, _PAGE - place)
        yield page, _FULL if here == _PAGE else ((1 << here) - 1) << place
        first += here


def _joined(pages: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Go through the runs of pages, (index of the first bit, bits); those that meet become one."""
    start = stop = 0
    for base, bits in pages:
        for first, end in _runs_of(bits):
            if start < stop == base + first:
                stop = base + end
                continue
            if start < stop:
                yield start, stop - start
            start, stop = base + first, base + end
    if start < stop:
        yield start, stop - start


def _runs_of(bits: int) -> list[tuple[int, int]]:
    """Give the half-open runs of set bits."""
    if not bits:
        return []
    low, end = (bits & -bits).bit_length() - 1, bits.bit_length()
    if end - low == bits.bit_count():
        return [(low, end)]
    flags = np.unpackbits(
        np.frombuffer(bits.to_bytes((end + 7) // 8, "little"), np.uint8), bitorder="little"
    )
    edges = np.flatnonzero(np.diff(flags, prepend=0, append=0)).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))
