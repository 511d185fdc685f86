"""Files of a table are named by the bundles that they hold, and say inside which these are.

::

    logs/date=2026-11-23/part-0-0000000000000003.000017-0000000000000005.000002.parquet
    slot      day            core     first bundle              last bundle

Unlike an exported file's, the name bounds what is inside and does not promise it: bundles that
waited for a retry, or have no row of that day, are not in it. The metadata of the file lists them:
``quiver.places`` has runs ``segment.first+count``, with one space between.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from quiver.errors import DamagedEntry

__all__ = ["PLACES_KEY", "At", "FileName", "decode_places", "encode_places"]

At: TypeAlias = tuple[int, int]
"""A bundle of a core: (segment_seq, bundle_index)."""

PLACES_KEY: Final = b"quiver.places"

_NAME: Final = re.compile(
    r"part-([0-9]+)-([0-9]{16,20})\.([0-9]{6,10})-([0-9]{16,20})\.([0-9]{6,10})\.parquet"
)
_RUN: Final = re.compile(r"([0-9]{1,20})\.([0-9]{1,10})\+([0-9]{1,10})")
_COUNT_MAX: Final = 1 << 24


@dataclass(frozen=True, slots=True)
class FileName:
    """What one file may hold."""

    core: int
    first: At
    last: At

    @property
    def text(self) -> str:
        """The name of the file."""
        ends = "-".join(f"{seq:016}.{index:06}" for seq, index in (self.first, self.last))
        return f"part-{self.core}-{ends}.parquet"

    @classmethod
    def parse(cls, text: str) -> FileName | None:
        """Read the name of a file; None if it is somebody else's."""
        match = _NAME.fullmatch(text)
        if match is None:
            return None
        core, *ends = map(int, match.groups())
        found = cls(core, (ends[0], ends[1]), (ends[2], ends[3]))
        return found if found.text == text and found.first <= found.last else None


def encode_places(places: Iterable[At]) -> bytes:
    """Write bundles as runs."""
    runs: list[list[int]] = []
    for seq, index in sorted(places):
        if runs and runs[-1][0] == seq and runs[-1][1] + runs[-1][2] == index:
            runs[-1][2] += 1
        else:
            runs.append([seq, index, 1])
    return " ".join(f"{seq}.{first}+{count}" for seq, first, count in runs).encode()


def decode_places(data: bytes) -> frozenset[At]:
    """Read them again; raises DamageError."""
    found: set[At] = set()
    for word in data.decode("ascii", "replace").split(" "):
        match = _RUN.fullmatch(word)
        if match is None:
            raise DamagedEntry("the places of a file are no runs of bundles")
        seq, first, count = map(int, match.groups())
        if not 0 < count <= _COUNT_MAX - len(found):
            raise DamagedEntry("the places of a file are too many, or none")
        found.update((seq, index) for index in range(first, first + count))
    return frozenset(found)
