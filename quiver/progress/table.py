"""The newest state of each split of each source, as far as somebody has looked.

Which of two states is newer: that of the later follower (``epoch``), and of one follower, who
writes to one core, that of the later bundle (``wal_seq``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from quiver.progress.format import NOTE, RECORD, SPLIT, Note, decode_table, encode_table

__all__ = ["Row", "Table"]

_ROW_BYTES = NOTE.size + RECORD.size + SPLIT.size
"""At most what a row takes beside its texts."""


class Row(NamedTuple):
    """What is known of one split; a state of None is one that was taken back."""

    epoch: int
    wal_seq: int
    state: str | None


class Table:
    """States by source and split. Not safe for several threads at once."""

    def __init__(self, notes: Iterable[tuple[int, Note]] = ()) -> None:
        """Begin with these notes, each with the wal_seq of its bundle."""
        self._rows: dict[str, dict[str, Row]] = {}
        self.take_all(notes)

    def take(self, wal_seq: int, note: Note) -> None:
        """Take in what one bundle says; what is known to be newer stays."""
        rows = self._rows.setdefault(note.source, {})
        for split, state in note.states.items():
            row = Row(note.epoch, wal_seq, state)
            known = rows.get(split)
            if known is None or known[:2] <= row[:2]:
                rows[split] = row

    def take_all(self, notes: Iterable[tuple[int, Note]]) -> None:
        """Take in many."""
        for wal_seq, note in notes:
            self.take(wal_seq, note)

    def notes(self) -> Iterator[tuple[int, Note]]:
        """Give all there is as notes, in a fixed order: equal tables give equal ones."""
        for source, rows in sorted(self._rows.items()):
            groups: dict[tuple[int, int], dict[str, str | None]] = {}
            for split, (epoch, wal_seq, state) in rows.items():
                groups.setdefault((epoch, wal_seq), {})[split] = state
            for (epoch, wal_seq), states in sorted(groups.items()):
                yield wal_seq, Note(source, epoch, states)

    def encode(self) -> bytes:
        """Write it."""
        return encode_table(self.notes())

    @classmethod
    def decode(cls, data: bytes | memoryview) -> Table:
        """Read one; raises DamagedEntry or VersionError."""
        return cls(decode_table(data))

    def rows(self, source: str) -> dict[str, Row]:
        """Give what is known of the splits of a source, also of those that were taken back."""
        return dict(self._rows.get(source, {}))

    def states(self, source: str) -> dict[str, str]:
        """Give the state of each split of a source, in order of their ids."""
        rows = sorted(self._rows.get(source, {}).items())
        return {split: row.state for split, row in rows if row.state is not None}

    def sources(self) -> list[str]:
        """Name the sources, in order."""
        return sorted(self._rows)

    def epoch(self, source: str) -> int:
        """Give the highest epoch that is known of a source; 0 if there is none."""
        return max((row.epoch for row in self._rows.get(source, {}).values()), default=0)

    def byte_count(self) -> int:
        """Say at most how many bytes it takes."""
        return sum(
            _ROW_BYTES + sum(len(text.encode()) for text in (source, split, row.state or ""))
            for source, rows in self._rows.items()
            for split, row in rows.items()
        )

    def __bool__(self) -> bool:
        """Whether anything is known."""
        return bool(self._rows)
