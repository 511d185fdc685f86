"""Pieces of a file: rows, and the place behind them."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from quiver.errors import SourceError
from quiver.source.files.opened import Opened

__all__ = ["Piece", "Pieces", "Place", "Wanted", "sliced", "wanted_names"]


class Place(NamedTuple):
    """Where a piece begins: ``unit`` is a number, or a byte; ``rows`` of it are done."""

    unit: int = 0
    rows: int = 0


class Piece(NamedTuple):
    """Rows, and where the next ones begin: None behind the last."""

    batch: pa.RecordBatch
    follows: Place | None


Pieces: TypeAlias = "Generator[Piece, None, None]"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What of a file is wanted, and in pieces of what size."""

    columns: tuple[str, ...] | None
    format: str | None
    batch_rows: int
    block_bytes: int
    schema: pa.Schema | None
    nulls: tuple[str, ...]
    separator: str


def wanted_names(wanted: Wanted, known: Sequence[str], file: Opened) -> list[str]:
    """Give the columns to read, in order; SourceError for one that the file does not have."""
    if wanted.columns is None:
        return list(known)
    for name in wanted.columns:
        if known.count(name) != 1:
            there = "more than one column" if name in known else "no column"
            raise SourceError(
                f"{file.path} has {there} {name!r}", hint=f"it has {', '.join(known) or 'none'}"
            )
    return list(wanted.columns)


def sliced(batch: pa.RecordBatch, place: Place, wanted: Wanted, *, after: Place | None) -> Pieces:
    """Cut a whole unit into pieces, without the rows that are done."""
    for start in range(place.rows, batch.num_rows, wanted.batch_rows):
        rows = batch.slice(start, wanted.batch_rows)
        end = start + rows.num_rows
        yield Piece(rows, after if end >= batch.num_rows else Place(place.unit, end))
