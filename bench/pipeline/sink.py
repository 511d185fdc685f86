"""The sink of the job: a Parquet file for each slot of so many bundles, synced when it is there."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import parquet

from bench.pipeline.source import SLOTS

__all__ = ["FILE_BUNDLES", "Sink", "same"]

FILE_BUNDLES: Final = 32
"""Bundles of a file; each is of a mebibyte of text."""


class Sink:
    """Gathers rows until there are enough for a file of each slot, then writes these and syncs."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._tables: dict[str, list[pa.Table]] = {slot: [] for slot in SLOTS}
        self._then: list[Callable[[], object]] = []
        self._count = 0
        self.bundle_count = 0
        """Of all files, whole or not."""

    @property
    def room(self) -> int:
        """How many bundles the files that are begun still take."""
        return FILE_BUNDLES - self._count

    def add(
        self,
        tables: Mapping[str, pa.Table | pa.RecordBatch],
        then: Callable[[], object] | None = None,
        *,
        count: int = 1,
    ) -> None:
        """Take what so many bundles have, no more than there is room for; ``then`` when durable."""
        for slot, rows in tables.items():
            is_batch = isinstance(rows, pa.RecordBatch)
            self._tables[slot].append(pa.Table.from_batches([rows]) if is_batch else rows)
        if then is not None:
            self._then.append(then)
        self._count += count
        self.bundle_count += count
        if not self.room:
            self.write()

    def write(self) -> None:
        """Write what there is, and do what was to be done then."""
        if not self._count:
            return
        last = f"{self.bundle_count:08}"
        for slot, tables in self._tables.items():
            place = self._folder / f"{slot}-{last}.tmp"
            # Parquet's writer spells a dictionary out where the next chunk has another one.
            table = pa.concat_tables(tables).unify_dictionaries()
            with place.open("wb") as file:
                parquet.write_table(table, file)
                file.flush()
                os.fsync(file.fileno())
            place.rename(place.with_suffix(".parquet"))
            tables.clear()
        _sync_folder(self._folder)
        for act in self._then:
            act()
        self._then.clear()
        self._count = 0


def _sync_folder(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def same(ours: Path, theirs: Path) -> int:
    """Compare two folders, file by file and row by row; gives the rows, raises if they differ."""
    places: Sequence[list[Path]] = [sorted(f.glob("*.parquet")) for f in (ours, theirs)]
    names = [[place.name for place in each] for each in places]
    if names[0] != names[1] or not names[0]:
        raise ValueError(f"other files came out: {names[0]} and {names[1]}")
    rows = 0
    for one, other in zip(*places, strict=True):
        tables = [_plain(parquet.read_table(place)) for place in (one, other)]
        if not tables[0].equals(tables[1]):
            raise ValueError(f"{one.name} differs")
        rows += tables[0].num_rows
    return rows


def _plain(table: pa.Table) -> pa.Table:
    """Spell dictionaries out: how wide an index is, and which words no row has, is no value."""
    for place, field in enumerate(table.schema):
        if isinstance(field.type, pa.DictionaryType):
            table = table.set_column(
                place, field.name, table.column(place).cast(field.type.value_type)
            )
    return table
