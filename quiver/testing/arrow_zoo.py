"""IPC streams and files with every kind of Arrow column, small, plain and compressed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

__all__ = ["zoo"]

_CODECS: Final = (None, "lz4", "zstd")
_ROWS: Final = 12


def zoo() -> dict[str, bytes]:
    """Give streams of one batch and files of two by name: ``kind.stream``, ``kind.zstd.file``."""
    found = {}
    for kind, batch in _batches():
        for codec in _CODECS if batch.nbytes else _CODECS[:1]:
            options = pa.ipc.IpcWriteOptions(compression=codec, use_threads=False)
            name = f"{kind}.{codec}" if codec else kind
            found[f"{name}.stream"] = _written(pa.ipc.new_stream, [batch], options)
            found[f"{name}.file"] = _written(pa.ipc.new_file, [batch, batch], options)
    return found


def _written(writer: Any, batches: list[pa.RecordBatch], options: pa.ipc.IpcWriteOptions) -> bytes:  # noqa: ANN401
    sink = pa.BufferOutputStream()
    with writer(sink, batches[0].schema, options=options) as opened:
        for batch in batches:
            opened.write_batch(batch)
    return sink.getvalue().to_pybytes()


def _batches() -> Iterator[tuple[str, pa.RecordBatch]]:
    for kind, columns in (
        ("fixed", _fixed()),
        ("text", _text()),
        ("lists", _lists()),
        ("nested", _nested()),
        ("dictionaries", _dictionaries()),
        ("views", _views()),
        ("unions", _unions()),
        ("run-end", _run_ends()),
        ("nulls", {"none": pa.nulls(_ROWS), "some": pa.array([None, 1] * (_ROWS // 2))}),
    ):
        yield kind, pa.record_batch(columns)
    every = {**_text(), **_lists(), **_dictionaries(), **_unions(), **_run_ends()}
    yield "every", pa.record_batch(every)
    yield "no rows", pa.record_batch(every).slice(0, 0)
    yield "no columns", pa.record_batch([], schema=pa.schema([]))


def _fixed() -> dict[str, Any]:
    numbers = range(_ROWS)
    return {
        "int8": pa.array(numbers, pa.int8()),
        "uint64": pa.array(numbers, pa.uint64()),
        "float64": pa.array([n / 3 for n in numbers]),
        "half": pa.array([1.5, None] * (_ROWS // 2), pa.float16()),
        "bool": pa.array([True, None, False] * (_ROWS // 3)),
        "decimal": pa.array([Decimal(n).scaleb(-2) for n in numbers], pa.decimal128(9, 2)),
        "wide": pa.array([Decimal(n) for n in numbers], pa.decimal256(50, 0)),
        "date": pa.array([date(2013, 1, 1 + n) for n in numbers]),
        "time": pa.array(numbers, pa.timestamp("ns", "UTC")),
        "fixed": pa.array([b"four"] * _ROWS, pa.binary(4)),
    }


def _text() -> dict[str, Any]:
    words = ["a", None, "", "ä longer word than the others"] * (_ROWS // 4)
    return {
        "text": pa.array(words),
        "large": pa.array(words, pa.large_string()),
        "binary": pa.array(words, pa.binary()),
    }


def _lists() -> dict[str, Any]:
    values = [[1, 2], None, [], [3, None]] * (_ROWS // 4)
    return {
        "list": pa.array(values, pa.list_(pa.int32())),
        "large list": pa.array(values, pa.large_list(pa.int16())),
        "pair": pa.array([[1, 2], None] * (_ROWS // 2), pa.list_(pa.int8(), 2)),
        "words": pa.array([["x", "yy"], []] * (_ROWS // 2)),
    }


def _nested() -> dict[str, Any]:
    values = [{"a": 1, "b": ["x", None], "c": {"d": "deep"}}, None] * (_ROWS // 2)
    pairs = [[("k", 1), ("l", None)], None, []] * (_ROWS // 3)
    return {
        "struct": pa.array(values),
        "map": pa.array(pairs, pa.map_(pa.string(), pa.int64())),
        "rows": pa.array([values[:2], []] * (_ROWS // 2)),
    }


def _dictionaries() -> dict[str, Any]:
    words = pa.array(["warn", "info", None, "warn"] * (_ROWS // 4))
    small = pa.dictionary(pa.int8(), pa.string())
    return {
        "level": words.dictionary_encode(),
        "small": words.cast(small),
        "inside": pa.array([["x"], ["y", "x"]] * (_ROWS // 2), pa.list_(small)),
        "numbers": pa.array([7, 8, 7] * (_ROWS // 3)).dictionary_encode(),
    }


def _views() -> dict[str, Any]:
    words = ["short", None, "", "a text that is too long to be inside its view"] * (_ROWS // 4)
    return {
        "text view": pa.array(words, pa.string_view()),
        "binary view": pa.array(words, pa.binary_view()),
        "list view": pa.array([[1, 2], None, []] * (_ROWS // 3), pa.list_view(pa.int32())),
    }


def _unions() -> dict[str, Any]:
    types = pa.array([0, 1, 0] * (_ROWS // 3), pa.int8())
    numbers, words = pa.array(range(_ROWS)), pa.array([f"word {n}" for n in range(_ROWS)])
    offsets = pa.array(range(_ROWS), pa.int32())
    return {
        "sparse": pa.UnionArray.from_sparse(types, [numbers, words]),
        "dense": pa.UnionArray.from_dense(types, offsets, [numbers, words]),
    }


def _run_ends() -> dict[str, Any]:
    ends, texts, numbers = [4, 5, _ROWS], pa.array(["a", None, "b"]), pa.array([1.5, 2, 3])
    return {
        "runs": pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), texts),
        "short runs": pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int16()), numbers),
    }
