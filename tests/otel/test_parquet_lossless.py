"""Requests of any shape go through tables, over several days, and are read out of them again."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from lake_kit import at, export, files
from otlp_model import canonical
from otlp_strategies import EXAMPLES, few, requests

from quiver.bundle import RecordBundle
from quiver.otel.batch import Batch
from quiver.otel.nodes import Accepted
from quiver.otel.otlp import decode, encode
from quiver.otel.signals import TELEMETRY, Signal
from quiver.testing import MemoryDisk

PLACE = ["core", "segment_seq", "bundle_index", "part"]
SHARED = {"univariate_metrics": "id"} | dict.fromkeys(
    ("resource_attrs", "scope_attrs", "metric_attrs"), "parent_id"
)


def tables(disk: MemoryDisk) -> dict[str, pa.Table]:
    """All tables with nanoseconds again, what days share taken once."""
    found = {}
    for slot in TELEMETRY:
        parts, seen = [], set()
        for _, data in sorted(files(disk, slot.name).items()):
            table = in_nanoseconds(pq.read_table(io.BytesIO(data)))
            if slot.name in SHARED:
                keys = [tuple(row.values()) for row in table.select(keys_of(slot.name)).to_pylist()]
                table = table.filter(pa.array([key not in seen for key in keys], pa.bool_()))
                seen |= set(keys)
            parts.append(table)
        if parts:
            found[slot.name] = pa.concat_tables(parts)
    return found


def keys_of(slot: str) -> list[str]:
    return [*PLACE, SHARED[slot]]


def in_nanoseconds(table: pa.Table) -> pa.Table:
    for name in [name for name in table.column_names if f"{name}_rest" in table.column_names]:
        micros = np.asarray(table[name].cast(pa.int64()).fill_null(0))
        rest = np.asarray(table[f"{name}_rest"].fill_null(0)).astype(np.int64)
        with np.errstate(over="ignore"):
            values = pa.array(micros * 1000 + rest).view(pa.timestamp("ns"))
        none = table[name].is_null().combine_chunks()
        values = pa.compute.if_else(none, pa.scalar(None, values.type), values)
        table = table.set_column(table.column_names.index(name), name, values)
        table = table.drop_columns([f"{name}_rest"])
    return table


def batches(signal: Signal, found: dict[str, pa.Table]) -> list[Batch]:
    """Put bundles together again by where their rows are from."""
    places = sorted(
        {tuple(row.values()) for table in found.values() for row in table.select(PLACE).to_pylist()}
    )
    made = []
    for place in places:
        bundle: dict[str, Any] = {}
        for slot, table in found.items():
            mask = np.logical_and.reduce(
                [np.asarray(table[name]) == value for name, value in zip(PLACE, place, strict=True)]
            )
            rows = table.filter(pa.array(mask)).drop_columns(PLACE).combine_chunks()
            if rows.num_rows:
                bundle[slot] = rows.to_batches()[0]
        made.append(Batch(signal, RecordBundle(bundle)))
    return made


@pytest.mark.parametrize("signal", list(Signal))
def test_what_goes_into_tables_is_all_there(signal: Signal) -> None:
    @settings(few, max_examples=max(5, EXAMPLES // 3))
    @given(requests(signal), requests(signal))
    def check(first: Any, second: Any) -> None:
        disk = MemoryDisk()
        sent = [first, second]
        delivered = [
            at(batch, seq, index)
            for seq, request in enumerate(sent)
            for index, batch in enumerate(decode(signal, request.SerializeToString()))
        ]
        outcomes = export(disk, *delivered)
        assert outcomes == [Accepted()] * len(delivered)
        again = [type(first).FromString(encode(each)) for each in batches(signal, tables(disk))]
        assert canonical(type(first)(), *again) == canonical(*sent)

    check()
