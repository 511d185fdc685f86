"""What came out against the year: bundle for bundle, row for row, copy for copy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from bench.demo.compare import Difference
from bench.demo_chain.copies import CopyFound

__all__ = ["Sequenced", "Verdict", "judge_copies", "judge_counts", "pauses", "sequenced"]

_FORMS: Final = ("log", "segment")


@dataclass(frozen=True)
class Sequenced:
    """What a cursor gave, against the numbers that it should have given."""

    came: int
    lost: int
    twice: int
    strange: int
    is_ordered: bool

    @property
    def is_good(self) -> bool:
        """Whether each came once, in order."""
        return self.is_ordered and not (self.lost or self.twice or self.strange)


@dataclass
class Verdict:
    """How it went."""

    cursors: dict[str, Sequenced] = field(default_factory=dict)
    rows: dict[str, Difference] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def all_problems(self) -> list[str]:
        """Say what is wrong; nothing if all is as it should be."""
        said = [
            f"{name}: {found.lost:,} lost, {found.twice:,} twice, {found.strange:,} strange"
            + ("" if found.is_ordered else ", out of order")
            for name, found in self.cursors.items()
            if not found.is_good
        ]
        said += [
            f"{name}: {rows.lost:,} rows lost, {rows.duplicates:,} twice, {rows.foreign:,} differ"
            f" {rows.columns}"
            for name, rows in self.rows.items()
            if not rows.is_none
        ]
        if not self.cursors or not self.rows:
            said.append("nothing was compared")
        return said + self.problems


def sequenced(numbers: Any, count: int) -> Sequenced:
    """Compare numbers of bundles, as they came, with 0 up to ``count``."""
    given = np.asarray(numbers, np.int64)
    fit = given[(given >= 0) & (given < count)]
    times = np.bincount(fit, minlength=count)
    return Sequenced(
        came=len(given),
        lost=int((times == 0).sum()),
        twice=int(np.maximum(times - 1, 0).sum()),
        strange=len(given) - len(fit),
        is_ordered=bool((np.diff(given) > 0).all()),
    )


def judge_copies(
    copies: Iterable[CopyFound], wanted: Mapping[int, int], digests: Mapping[int, str]
) -> list[str]:
    """Say which blocks have too few copies, or copies that are not equal.

    ``wanted`` has how many there should be of each block, ``digests`` what a segment of it is.
    """
    found: dict[int, list[CopyFound]] = defaultdict(list)
    for copy in copies:
        found[copy.block].append(copy)
    problems = []
    for block, count in wanted.items():
        there = [copy for copy in found[block] if copy.form != "none"]
        problems += [
            f"block {block} at {copy.node}: {copy.digest}"
            for copy in found[block]
            if copy.form == "none"
        ]
        if len({copy.node for copy in there}) < count:
            problems.append(f"block {block} has {len(there)} copies, not {count}")
        if any(len({copy.digest for copy in there if copy.form == form}) > 1 for form in _FORMS):
            problems.append(f"block {block}: its copies are not equal")
        if any(copy.form == "segment" and copy.digest != digests.get(block) for copy in there):
            problems.append(f"block {block}: a segment is not the one that the record names")
    return problems


def judge_counts(found: Mapping[str, int], carriers: Iterable[str]) -> list[str]:
    """Compare what Spark counted with the carriers of the source."""
    names, counts = np.unique(np.array(list(carriers), dtype=object), return_counts=True)
    wanted = dict(zip(names.tolist(), counts.tolist(), strict=True))
    return [
        f"Spark counts {found.get(name, 0):,} flights of {name}, not {wanted.get(name, 0):,}"
        for name in sorted(wanted.keys() | found.keys())
        if wanted.get(name, 0) != found.get(name, 0)
    ]


def pauses(times: Any, faults: Sequence[int]) -> list[float]:
    """Give the longest time without an acknowledgement behind each fault, in seconds.

    ``times`` are those of acknowledgements, ``faults`` when somebody was killed, both in ns.
    """
    found = []
    for begin, end in zip(faults, [*faults[1:], np.inf], strict=True):
        first = max(int(np.searchsorted(times, begin)) - 1, 0)
        gaps = np.diff(times[first : int(np.searchsorted(times, end))])
        found.append(float(gaps.max()) / 1e9 if len(gaps) else 0.0)
    return found
