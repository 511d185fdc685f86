"""Batches of OTAP made by hand, and the tables of a lake read again."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from quiver.bundle import RecordBundle
from quiver.disk import Disk
from quiver.otel.batch import Batch
from quiver.otel.exporters import ParquetExporter
from quiver.otel.nodes import Delivered, Outcome, Place
from quiver.otel.signals import Signal
from quiver.testing import ManualClock

DAY = 86_400 * 10**9
NOON = 20_000 * DAY + DAY // 2
"""Noon of 2024-10-04."""
TIME = pa.timestamp("ns")
ID = pa.uint16()
OWNER = {"store_id": "a store", "subscriber": "lake"}


def words(values: Sequence[str | None]) -> pa.Array:
    return pa.array(values, pa.dictionary(pa.uint8(), pa.string()))


def logs(*texts: str, time: int = NOON, step: int = 0, observed: int = 0) -> Batch:
    """Log records with an attribute each, one resource for all, and one scope for each two."""
    count = len(texts)
    ids = list(range(count))
    around = {
        "resource": [{"id": 0}] * count,
        "scope": [{"id": n // 2} for n in ids],
    }
    kind = pa.struct([pa.field("id", pa.uint16())])
    times = [time + n * step if time else 0 for n in ids]
    root = pa.record_batch(
        {
            "id": pa.array(ids, pa.uint16()),
            **{name: pa.array(values, kind) for name, values in around.items()},
            "time_unix_nano": pa.array(times, TIME),
            "observed_time_unix_nano": pa.array([observed] * count, TIME),
            "severity_text": words(["INFO"] * count),
            "body": pa.array(
                [{"str": text} for text in texts], pa.struct([pa.field("str", words([]).type)])
            ),
        }
    )
    found = {"logs": root, "log_attrs": attrs(ids), "resource_attrs": attrs([0])}
    found["scope_attrs"] = attrs(sorted({n // 2 for n in ids}))
    return Batch(Signal.LOGS, RecordBundle(found))


def attrs(parents: Sequence[int], kind: pa.DataType = ID) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "parent_id": pa.array(parents, kind),
            "key": words(["k"] * len(parents)),
            "str": words([f"v{n}" for n in parents]),
        }
    )


def lake(disk: Disk, *, core: int = 0, **options: Any) -> ParquetExporter:
    given = {"owner": OWNER, "clock": ManualClock(), "to_arrow": lambda batch: [batch]}
    return ParquetExporter(disk, core=core, **(given | options))


def at(batch: Batch, seq: int, index: int = 0, *, ingested: int | None = NOON) -> Delivered:
    return Delivered(batch, Place(0, seq, index), ingestion_ns=ingested)


def export(disk: Disk, *delivered: Delivered, **options: Any) -> list[Outcome]:
    exporter = lake(disk, **options)
    try:
        return list(exporter.export(delivered))
    finally:
        exporter.close()


def files(disk: Disk, slot: str) -> dict[str, bytes]:
    """The files of a table by day and name."""
    found = {}
    if disk.stat(slot) is not None:
        for day in disk.list_dir(slot):
            for file in disk.list_dir(f"{slot}/{day.name}"):
                if file.name.startswith("_"):
                    continue
                path = f"{slot}/{day.name}/{file.name}"
                found[path.removeprefix(f"{slot}/")] = bytes(disk.map(path))
    return found


def rows(disk: Disk, slot: str) -> list[dict[str, Any]]:
    """All rows of a table, each with its day."""
    found = []
    for path, data in files(disk, slot).items():
        table = pq.read_table(io.BytesIO(data))
        day = path.partition("/")[0].removeprefix("date=")
        found += [{"date": day, **row} for row in table.to_pylist()]
    return found


def bodies(disk: Disk) -> list[str]:
    return sorted(row["body"]["str"] for row in rows(disk, "logs"))


KEYS = ("date", "core", "segment_seq", "bundle_index", "part")


def joined(disk: Disk) -> list[tuple[str, str, str, str]]:
    """Each log record with the value of its attribute, its resource's and its scope's."""

    def index(slot: str) -> dict[tuple[Any, ...], str]:
        found = rows(disk, slot)
        known = {(*(row[k] for k in KEYS), row["parent_id"]): row["str"] for row in found}
        assert len(known) == len(found), "an attribute is there twice"
        return known

    own, resource, scope = index("log_attrs"), index("resource_attrs"), index("scope_attrs")
    return sorted(
        (
            row["body"]["str"],
            own[(*place, row["id"])],
            resource[(*place, row["resource"]["id"])],
            scope[(*place, row["scope"]["id"])],
        )
        for row in rows(disk, "logs")
        for place in [tuple(row[k] for k in KEYS)]
    )
