"""Take bundles out of a log again that came behind a hole: each becomes a checkpoint of its length.

So their numbers stay used up, no later replay finds them, and nothing else in the file moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import groupby
from typing import Final, NamedTuple

from quiver.disk import Disk, File, copy_range
from quiver.errors import DamagedEntry, DamageError
from quiver.wal.format import Place, encode_struck

__all__ = ["Struck", "strike_out"]

_REASON: Final = "bundles behind lost ones were taken out; their source gives them again"


class Struck(NamedTuple):
    """An entry that is to be taken out: where it begins and ends in its file."""

    place: Place
    end: int


def strike_out(
    disk: Disk,
    struck: Iterable[Struck],
    path_of: Callable[[int], str],
    *,
    quarantine: str,
    truncated: Place,
) -> Iterator[DamageError]:
    """Do it, and tell of each run of them; copies are in quarantine before. Durable at its end.

    It may be broken off anywhere and done again with those that are left.
    """
    for generation, group in groupby(struck, key=lambda each: each.place.generation):
        with closing(disk.open(path_of(generation), writable=True)) as file:
            entries = list(group)
            for offset, end in _runs(entries):
                error = DamagedEntry(_REASON, offset=offset).at(disk.locate(file.path))
                name = f"wal-{generation}-{offset}.bin"
                copy_range(disk, quarantine, name, file=file, offset=offset, end=end, error=error)
                yield error
            for entry in entries:
                _strike(file, entry, truncated)
            file.sync()


def _runs(entries: Iterable[Struck]) -> list[tuple[int, int]]:
    """Join those that stand one behind the other."""
    runs: list[tuple[int, int]] = []
    for (_, offset), end in entries:
        if runs and runs[-1][1] == offset:
            runs[-1] = runs[-1][0], end
        else:
            runs.append((offset, end))
    return runs


def _strike(file: File, entry: Struck, truncated: Place) -> None:
    offset = entry.place.offset
    file.write(offset, encode_struck(file.read(offset, entry.end - offset), truncated))
