"""CSV and NDJSON: blocks of whole rows, cut and read one at a time.

A block begins where its offset says and ends by a rule that looks at nothing else, so going on at
a block gives the blocks that came before a crash.
"""

from __future__ import annotations

import csv as plain_csv
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyarrow import csv, json

from quiver.errors import SourceError
from quiver.source.files.lines import csv_cut, first_record, line_cut
from quiver.source.files.opened import Opened
from quiver.source.files.pieces import Pieces, Place, Wanted, sliced, wanted_names

__all__ = ["csv_pieces", "ndjson_pieces"]

ROW_BYTES_MAX: Final = 256 << 20

_BOM: Final = b"\xef\xbb\xbf"


def csv_pieces(file: Opened, place: Place, wanted: Wanted) -> Pieces:
    """Read records from a place on; types are those of the schema, or come from the first block.

    A column without values in the first block is of texts.
    """
    separator = wanted.separator or ("\t" if file.path.lower().endswith(".tsv") else ",")
    blocks = _CsvBlocks(file, separator, wanted)
    names = wanted_names(wanted, blocks.names, file)
    read = _CsvReader(blocks.names, names, separator=separator, wanted=wanted)
    begin = max(place.unit, blocks.start)
    for _, data, _ in blocks.walk(blocks.start):
        read.learn(data)
        break
    for offset, data, end in blocks.walk(begin):
        here = Place(offset, place.rows if offset == begin else 0)
        after = Place(end, 0) if end < file.size() else None
        yield from sliced(read.block(data), here, wanted, after=after)


def ndjson_pieces(file: Opened, place: Place, wanted: Wanted) -> Pieces:
    """Read lines from a place on, each one JSON object; a field that a block has not is null.

    A column that is wanted has to be in the first block, or in the schema.
    """

    def cut(data: bytes, is_last: bool) -> int:  # noqa: FBT001 As its caller hands it over.
        return line_cut(data, is_last=is_last)

    if wanted.columns:
        _, data, _ = next(_walk(file, 0, wanted=wanted, cut=cut))
        known = _parse_ndjson(data, wanted).column_names if not data.isspace() else []
        wanted_names(wanted, known, file)
    for offset, data, end in _walk(file, place.unit, wanted=wanted, cut=cut):
        here = Place(offset, place.rows if offset == place.unit else 0)
        after = Place(end, 0) if end < file.size() else None
        if not data.isspace():
            yield from sliced(_read_ndjson(data, wanted), here, wanted, after=after)


def _walk(
    file: Opened, start: int, *, wanted: Wanted, cut: Callable[[bytes, bool], int]
) -> Iterator[tuple[int, bytes, int]]:
    """Give blocks of whole rows: where each begins, its bytes, where the next one does."""
    while start < file.size():
        length, end = wanted.block_bytes, 0
        while not end:
            data = file.pread(start, length)
            end = cut(data, start + len(data) >= file.size())
            if not end and length > ROW_BYTES_MAX:
                raise SourceError(
                    f"{file.path} has a row of more than {ROW_BYTES_MAX:,} bytes at {start:,}",
                    hint="is it of another format, or is a quote never closed?",
                )
            length *= 2
        yield start, data[:end], start + end
        start += end


class _CsvBlocks:
    """Where the header of a CSV file ends, what it says, and the blocks behind it."""

    def __init__(self, file: Opened, separator: str, wanted: Wanted) -> None:
        self._file = file
        self._sign = separator.encode()
        self._wanted = wanted
        self.start = len(_BOM) if file.pread(0, len(_BOM)) == _BOM else 0
        _, data, _ = next(self.walk(self.start), (0, b"", 0))
        header = data[: first_record(data, self._sign) or len(data)]
        self.start += len(header)
        lines = header.decode().splitlines(keepends=True)
        rows = plain_csv.reader(lines, delimiter=separator)
        try:
            self.names: list[str] = next(rows, [])
        except plain_csv.Error as error:
            raise SourceError(
                f"{file.path} has a first line that names no columns: {error}",
                hint="is it of another format, or has it no header?",
            ) from error

    def walk(self, start: int) -> Iterator[tuple[int, bytes, int]]:
        return _walk(self._file, start, wanted=self._wanted, cut=self._cut)

    def _cut(self, data: bytes, is_last: bool) -> int:  # noqa: FBT001
        found = csv_cut(data, self._sign, is_last=is_last)
        if found is None:
            raise SourceError(
                f"{self._file.path} ends inside of quotes",
                hint="it may have been cut short; a quote in a quoted field is doubled",
            )
        return found


class _CsvReader:
    """Reads blocks of one file, all with the same types."""

    def __init__(
        self, known: Sequence[str], names: Sequence[str], *, separator: str, wanted: Wanted
    ) -> None:
        self._known = list(known)
        self._names = list(names)
        self._separator = separator
        self._nulls = list(wanted.nulls)
        self._kinds: dict[str, pa.DataType] = {
            field.name: field.type for field in wanted.schema or ()
        }

    def learn(self, data: bytes) -> None:
        """Take the types that are not given from the first block."""
        for field in self._read(data).schema:
            kind = pa.string() if pa.types.is_null(field.type) else field.type
            self._kinds.setdefault(field.name, kind)

    def block(self, data: bytes) -> pa.RecordBatch:
        """Read one block."""
        return _one_batch(self._read(data))

    def _read(self, data: bytes) -> pa.Table:
        table = csv.read_csv(
            _readable(data),
            read_options=csv.ReadOptions(
                use_threads=False, block_size=len(data) + 1, column_names=self._known
            ),
            parse_options=csv.ParseOptions(delimiter=self._separator, newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types=self._kinds,
                include_columns=self._names,
                null_values=self._nulls,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        return table if self._names else table.select([])


def _parse_ndjson(data: bytes, wanted: Wanted) -> pa.Table:
    return json.read_json(
        _readable(data),
        read_options=json.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=json.ParseOptions(explicit_schema=wanted.schema),
    )


def _read_ndjson(data: bytes, wanted: Wanted) -> pa.RecordBatch:
    table = _parse_ndjson(data, wanted)
    if wanted.columns is None:
        return _one_batch(table)
    for name in wanted.columns:
        if name not in table.column_names:
            table = table.append_column(name, pa.nulls(table.num_rows))
    return _one_batch(table.select(list(wanted.columns)))


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    if not table.num_columns:
        rows: Any = pa.RecordBatch.from_arrays([pa.nulls(table.num_rows)], names=["row"])
        return rows.select([])
    arrays = [
        pa.concat_arrays([pa.array([], column.type), *column.chunks]) for column in table.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)


def _readable(data: bytes) -> Any:  # noqa: ANN401 The stubs ask for a file of Python's.
    return pa.BufferReader(data)
