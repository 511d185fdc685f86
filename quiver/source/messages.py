"""Messages of one format, many at a time: what can be taken as a batch, and what cannot and why.

Arrow parses many lines at once; which message it refuses it does not say, nor does it notice where
two lines became one row. So each block begins and ends with a line of ours, rows are counted, and a
block in which something is wrong is halved until single messages are left.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyarrow import csv
from pyarrow import json as arrow_json

__all__ = ["Refused", "parse_bytes", "parse_csv", "parse_json"]

_FAULTS: Final = (pa.ArrowException, ValueError, TypeError, KeyError)
_REASON_MAX: Final = 300


class Refused(NamedTuple):
    """A message, by its place in what was given, and what is wrong with it."""

    place: int
    reason: str


Block = Callable[[Sequence[bytes], pa.Schema], pa.RecordBatch]


def parse_json(
    messages: Sequence[bytes], schema: pa.Schema
) -> tuple[pa.RecordBatch, list[Refused]]:
    """Take messages of one JSON object each."""
    lines: list[tuple[int, bytes]] = []
    refused: list[Refused] = []
    for index, message in enumerate(messages):
        try:
            value = json.loads(message.decode(), parse_constant=_no_number)
            if not isinstance(value, dict):
                raise TypeError("it is no JSON object")
        except (ValueError, TypeError, RecursionError) as error:
            refused.append(Refused(index, _reason(error)))
        else:
            # Outside of texts a line break is a blank, and inside JSON has none.
            lines.append((index, message.replace(b"\n", b" ").replace(b"\r", b" ")))
    return _in_blocks(lines, schema, block=_json_block, refused=refused)


def parse_csv(messages: Sequence[bytes], schema: pa.Schema) -> tuple[pa.RecordBatch, list[Refused]]:
    """Take messages of one line of CSV each, without a header; an empty field is null."""
    lines: list[tuple[int, bytes]] = []
    refused: list[Refused] = []
    for index, message in enumerate(messages):
        line = message.removesuffix(b"\n").removesuffix(b"\r")
        if b"\n" in line or b"\r" in line:
            refused.append(Refused(index, "it is more than one line"))
        elif not line and len(schema) > 1:
            refused.append(Refused(index, "it is empty"))
        else:
            lines.append((index, line))
    return _in_blocks(lines, schema, block=_csv_block, refused=refused)


def parse_bytes(
    messages: Sequence[bytes], schema: pa.Schema
) -> tuple[pa.RecordBatch, list[Refused]]:
    """Take messages as they are: values of the one column, cast from bytes to its type."""
    return _in_blocks(list(enumerate(messages)), schema, block=_bytes_block, refused=[])


def _json_block(lines: Sequence[bytes], schema: pa.Schema) -> pa.RecordBatch:
    data = b"\n".join(lines)
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    table = arrow_json.read_json(
        _readable(data),
        read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=arrow_json.ParseOptions(
            explicit_schema=nullable, unexpected_field_behavior="ignore"
        ),
    )
    return _one_batch(table, schema, len(lines))


def _csv_block(lines: Sequence[bytes], schema: pa.Schema) -> pa.RecordBatch:
    ours = b"," * (len(schema) - 1)
    # In front, for of the first line Arrow takes a byte order mark away; behind, for quotes that a
    # line leaves open would swallow it.
    data = b"\n".join([ours, *lines, ours, b""])
    table = csv.read_csv(
        _readable(data),
        read_options=csv.ReadOptions(
            use_threads=False, block_size=len(data) + 1, column_names=schema.names
        ),
        parse_options=csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=csv.ConvertOptions(
            column_types={field.name: field.type for field in schema},
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        ),
    )
    if table.num_rows != len(lines) + 2:
        raise ValueError("quotes do not close")
    return _one_batch(table.slice(1, len(lines)), schema, len(lines))


def _bytes_block(messages: Sequence[bytes], schema: pa.Schema) -> pa.RecordBatch:
    column = pa.array(messages, pa.binary()).cast(schema.field(0).type)
    return pa.RecordBatch.from_arrays([column], schema=schema)


def _one_batch(table: pa.Table, schema: pa.Schema, count: int) -> pa.RecordBatch:
    if table.num_rows != count:
        raise ValueError(f"{count} messages are {table.num_rows} rows")
    arrays: list[Any] = []
    for field in schema:
        column = table.column(field.name)
        if column.null_count and not field.nullable:
            raise ValueError(f"column {field.name!r} must not be null")
        arrays.append(_combined(column, field.type))
    return _batch(arrays, schema, count)


def _combined(column: pa.ChunkedArray[Any], kind: pa.DataType) -> pa.Array[Any]:
    chunks = column.chunks
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays([*chunks, pa.array([], kind)])


def _batch(arrays: Sequence[pa.Array[Any]], schema: pa.Schema, count: int) -> pa.RecordBatch:
    if len(schema):
        return pa.RecordBatch.from_arrays(list(arrays), schema=schema)
    rows = pa.RecordBatch.from_arrays([pa.nulls(count)], names=["row"])
    return rows.select([])


def _in_blocks(
    lines: Sequence[tuple[int, bytes]], schema: pa.Schema, *, block: Block, refused: list[Refused]
) -> tuple[pa.RecordBatch, list[Refused]]:
    """Parse what is left of the messages, each with its index; gives all refused ones in order."""
    found: list[pa.RecordBatch] = []
    todo = [lines] if lines else []
    while todo:
        part = todo.pop()
        try:
            found.append(block([line for _, line in part], schema))
        except _FAULTS as error:
            if len(part) == 1:
                refused.append(Refused(part[0][0], _reason(error)))
            else:
                half = len(part) // 2
                todo += [part[half:], part[:half]]
    if len(found) == 1:
        return found[0], sorted(refused)
    arrays = [
        pa.concat_arrays([pa.array([], field.type), *(batch.column(n) for batch in found)])
        for n, field in enumerate(schema)
    ]
    return _batch(arrays, schema, sum(batch.num_rows for batch in found)), sorted(refused)


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number of JSON")


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _REASON_MAX else text[:_REASON_MAX] + "..."


def _readable(data: bytes) -> Any:  # noqa: ANN401 The stubs ask for a file of Python's.
    return pa.BufferReader(data)
