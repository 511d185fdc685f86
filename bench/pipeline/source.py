"""The job up to its sink: requests as NDJSON, decoded, parsed, filtered, derived, summed up."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as pa_json

__all__ = ["SLOTS", "bundles", "write_text"]

SLOTS: Final = ("requests", "services")
CHUNK_BYTES: Final = 1 << 20
"""Of text that is decoded at once."""

_LINES: Final = 20_000
_LEVELS: Final = ("debug", "info", "info", "info", "warn")
_SERVICES: Final = tuple(f"service-{n}" for n in range(24))
_PAGES: Final = ("cart", "order", "item", "user", "search", "login")
_SCHEMA: Final = pa.schema(
    [
        ("time", pa.string()),
        ("level", pa.string()),
        ("service", pa.string()),
        ("host", pa.string()),
        ("path", pa.string()),
        ("status", pa.int32()),
        ("ms", pa.float64()),
        ("bytes", pa.int64()),
        ("trace", pa.string()),
        ("message", pa.string()),
    ]
)
_PARSE: Final = pa_json.ParseOptions(explicit_schema=_SCHEMA, unexpected_field_behavior="error")
_READ: Final = pa_json.ReadOptions(use_threads=False, block_size=2 * CHUNK_BYTES)


def write_text(place: Path, byte_count: int) -> None:
    """Write about so much text of requests, one a line; the same each time."""
    lot = np.random.default_rng(9)
    with place.open("wb") as file:
        number = 0
        while file.tell() < byte_count:
            file.write("".join(_lines(lot, number, _LINES)).encode())
            number += _LINES


def _lines(lot: np.random.Generator, first: int, count: int) -> Iterator[str]:
    begun = dt.datetime(2013, 1, 1, tzinfo=dt.UTC)
    drawn = lot.integers(0, 1 << 20, (count, 4)).tolist()
    traces = lot.bytes(16 * count).hex()
    times = lot.gamma(2.0, 20.0, count).tolist()
    for at, (service, page, item, size) in enumerate(drawn):
        number, took = first + at, times[at]
        status = 500 if number % 97 == 0 else 200
        record: dict[str, Any] = {
            "time": (begun + dt.timedelta(milliseconds=37 * number)).isoformat(),
            "level": _LEVELS[number % len(_LEVELS)],
            "service": _SERVICES[service % len(_SERVICES)],
            "host": f"web-{page % 40}.example.net",
            "path": f"/{_PAGES[page % len(_PAGES)]}/{item % 5000}",
            "status": status,
            "ms": round(took, 3),
            "bytes": size,
            "trace": traces[32 * at : 32 * at + 32],
            "message": f"answered {status} to user {item} after {took:.1f} ms",
        }
        yield json.dumps(record) + "\n"


def bundles(place: Path) -> Iterator[dict[str, pa.RecordBatch]]:
    """Read a file of text as a stream, a bundle of each chunk."""
    with place.open("rb") as file:
        for text in _chunks(file):
            source = pa.BufferReader(text)
            yield _transformed(pa_json.read_json(source, _READ, _PARSE))


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    """Give the text in pieces that end with a line."""
    rest = b""
    while piece := file.read(CHUNK_BYTES):
        end = piece.rfind(b"\n") + 1
        yield rest + piece[:end]
        rest = piece[end:]
    if rest:
        yield rest


def _transformed(table: pa.Table) -> dict[str, pa.RecordBatch]:
    """Leave out what is for debugging, parse times, name routes and sum up what services did."""
    kept = table.filter(pc.field("level") != "debug")
    seconds = pc.divide(kept["ms"], 1000.0)
    columns: dict[str, Any] = {
        "time": kept["time"].cast(pa.timestamp("us", "UTC")),
        "level": kept["level"].dictionary_encode(),
        "service": kept["service"].dictionary_encode(),
        "host": kept["host"].dictionary_encode(),
        "route": pc.replace_substring_regex(kept["path"], r"\d+", "*").dictionary_encode(),
        "path": kept["path"],
        "status": kept["status"],
        "failed": pc.greater_equal(kept["status"], 500),
        "seconds": seconds,
        "bytes": kept["bytes"],
        "trace": kept["trace"],
        "message": kept["message"],
    }
    requests = pa.table(columns)
    services = (
        pa.table({name: columns[name] for name in ("service", "failed", "seconds", "bytes")})
        .group_by("service", use_threads=False)
        .aggregate([("failed", "sum"), ("seconds", "mean"), ("seconds", "max"), ("bytes", "sum")])
    )
    return {"requests": _one(requests), "services": _one(services)}


def _one(table: pa.Table) -> pa.RecordBatch:
    (batch,) = table.combine_chunks().to_batches()
    return batch
