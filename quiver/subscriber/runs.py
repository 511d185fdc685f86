"""A set of whole numbers as half-open runs, small whenever the numbers come in long stretches."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

__all__ = ["RunSet"]


class RunSet:
    """Disjoint runs ``[first, first + count)`` that never touch: two that meet become one."""

    __slots__ = ("_starts", "_stops", "count")

    def __init__(self, runs: Iterable[tuple[int, int]] = ()) -> None:
        """Start with these runs (first, count), in any order, overlapping or not."""
        self._starts: list[int] = []
        self._stops: list[int] = []
        self.count = 0
        for first, count in runs:
            self.add(first, count)

    def add(self, first: int, count: int = 1) -> int:
        """Put a run in; give how many of its numbers are new."""
        if count < 1:
            return 0
        start, stop = first, first + count
        low = bisect_left(self._stops, start)
        high = bisect_right(self._starts, stop)
        held = 0
        if low < high:
            start = min(start, self._starts[low])
            stop = max(stop, self._stops[high - 1])
            held = sum(self._stops[i] - self._starts[i] for i in range(low, high))
        self._starts[low:high] = [start]
        self._stops[low:high] = [stop]
        new = stop - start - held
        self.count += new
        return new

    def discard(self, number: int) -> bool:
        """Take one number out; False if it is not in."""
        at = bisect_right(self._starts, number) - 1
        if at < 0 or number >= self._stops[at]:
            return False
        start, stop = self._starts[at], self._stops[at]
        left = [(start, number), (number + 1, stop)]
        rest = [(a, b) for a, b in left if a < b]
        self._starts[at : at + 1] = [a for a, _ in rest]
        self._stops[at : at + 1] = [b for _, b in rest]
        self.count -= 1
        return True

    def next_absent(self, number: int) -> int:
        """Give the least number that is not in the set and not below ``number``."""
        at = bisect_right(self._starts, number) - 1
        return self._stops[at] if at >= 0 and number < self._stops[at] else number

    def runs(self) -> Iterator[tuple[int, int]]:
        """Go through the runs (first, count), ascending."""
        for start, stop in zip(self._starts, self._stops, strict=True):
            yield start, stop - start

    def gaps(self, first: int, count: int) -> Iterator[tuple[int, int]]:
        """Go through the runs (first, count) of what is missing from a run."""
        stop = first + count
        at = bisect_right(self._stops, first)
        while first < stop:
            start = self._starts[at] if at < len(self._starts) else stop
            if first < start:
                yield first, min(start, stop) - first
            if at == len(self._starts):
                return
            first = self._stops[at]
            at += 1

    def __contains__(self, number: object) -> bool:
        """Whether the number is in one of the runs."""
        return isinstance(number, int) and self.next_absent(number) != number

    def __eq__(self, other: object) -> bool:
        """Whether both hold the same numbers."""
        return isinstance(other, RunSet) and list(self.runs()) == list(other.runs())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Give the runs as half-open ranges."""
        inside = ", ".join(f"{first}:{first + count}" for first, count in self.runs())
        return f"RunSet({inside})"
