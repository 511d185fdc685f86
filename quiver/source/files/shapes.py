"""Pieces of a file, from any place on, by its format.

A place is a unit of the file and how many rows of it are done. A piece is never more than a unit.

============  ================================  =====================================
format        unit                              what going on there costs
============  ================================  =====================================
parquet       row group                         that row group, from its start
arrow         record batch                      nothing
arrow stream  record batch                      the stream is read from its start
csv           block of records, by its offset   the first block too, for its types
ndjson        block of lines, by its offset     nothing
============  ================================  =====================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
from pyarrow import parquet

from quiver.config import LimitsConfig
from quiver.ipc import check_schema
from quiver.source.files.opened import Opened, arrow_file
from quiver.source.files.pieces import Piece, Pieces, Place, Wanted, sliced, wanted_names
from quiver.source.files.tables import csv_pieces, ndjson_pieces

__all__ = ["SHAPES", "STREAM_HEAD"]

_LIMITS: Final = LimitsConfig()
STREAM_HEAD: Final = b"\xff\xff\xff\xff"
"""How an Arrow stream begins; an Arrow file does not."""


def _parquet(file: Opened, place: Place, wanted: Wanted) -> Pieces:
    with parquet.ParquetFile(arrow_file(file)) as found:
        check_schema(found.schema_arrow, _LIMITS)
        names = wanted_names(wanted, found.schema_arrow.names, file)
        last = found.num_row_groups - 1
        for group in range(place.unit, last + 1):
            done = place.rows if group == place.unit else 0
            count = found.metadata.row_group(group).num_rows
            following = Place(group + 1, 0) if group < last else None
            begun = 0
            for batch in found.iter_batches(
                wanted.batch_rows, row_groups=[group], columns=names, use_threads=False
            ):
                begun += batch.num_rows
                if begun <= done:
                    continue
                rows = batch.slice(max(batch.num_rows - (begun - done), 0)).select(names)
                yield Piece(rows, following if begun >= count else Place(group, begun))


def _arrow(file: Opened, place: Place, wanted: Wanted) -> Pieces:
    if file.pread(0, len(STREAM_HEAD)) == STREAM_HEAD:
        yield from _arrow_stream(file, place, wanted)
        return
    source = arrow_file(file)
    with pa.ipc.open_file(source) as reader:
        schema, count = reader.schema, reader.num_record_batches
    check_schema(schema, _LIMITS)
    names = wanted_names(wanted, schema.names, file)
    with pa.ipc.open_file(source, options=_included(schema, names)) as reader:
        for number in range(place.unit, count):
            batch = reader.get_batch(number)
            batch.validate(full=True)
            here = Place(number, place.rows if number == place.unit else 0)
            after = Place(number + 1, 0) if number + 1 < count else None
            yield from sliced(batch.select(names), here, wanted, after=after)


def _arrow_stream(file: Opened, place: Place, wanted: Wanted) -> Pieces:
    file.seek(0)
    with pa.ipc.open_stream(arrow_file(file)) as reader:
        check_schema(reader.schema, _LIMITS)
        names = wanted_names(wanted, reader.schema.names, file)
        following = next(reader, None)
        number = 0
        while following is not None:
            batch, following = following, next(reader, None)
            if number >= place.unit:
                batch.validate(full=True)
                here = Place(number, place.rows if number == place.unit else 0)
                after = None if following is None else Place(number + 1, 0)
                yield from sliced(batch.select(names), here, wanted, after=after)
            number += 1


def _included(schema: pa.Schema, names: Sequence[str]) -> pa.ipc.IpcReadOptions:
    """Leave the other columns unread; pyarrow takes none at all for all of them."""
    fields = [schema.get_field_index(name) for name in names]
    if not fields or len(fields) == len(schema):
        return pa.ipc.IpcReadOptions()
    return pa.ipc.IpcReadOptions(included_fields=sorted(fields))


SHAPES: Final[dict[str, Callable[[Opened, Place, Wanted], Pieces]]] = {
    "parquet": _parquet,
    "arrow": _arrow,
    "csv": csv_pieces,
    "ndjson": ndjson_pieces,
}
"""How to read each format; ``arrow`` is a file or a stream, which its first bytes tell."""
