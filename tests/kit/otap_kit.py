"""Bundles of telemetry made by hand, and what they say whatever their ids, order and types are."""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from typing import Any

import pyarrow as pa

from quiver.bundle import RecordBundle
from quiver.otel import Batch, Signal
from quiver.otel.otap.columns import TIME

__all__ = ["drawn_batch", "told"]

TREES: dict[str, tuple[str, ...]] = {
    "logs": ("log_attrs",),
    "spans": ("span_attrs", "span_events", "span_links"),
    "span_events": ("span_event_attrs",),
    "span_links": ("span_link_attrs",),
    "univariate_metrics": ("metric_attrs", "number_data_points", "histogram_data_points"),
    "number_data_points": ("number_dp_attrs", "number_dp_exemplars"),
    "number_dp_exemplars": ("number_dp_exemplar_attrs",),
    "histogram_data_points": ("histogram_dp_attrs", "histogram_dp_exemplars"),
    "histogram_dp_exemplars": ("histogram_dp_exemplar_attrs",),
}
ROOTS = {"logs": Signal.LOGS, "spans": Signal.TRACES, "univariate_metrics": Signal.METRICS}


def column(rnd: random.Random, values: list[Any], kind: pa.DataType) -> pa.Array:
    """A column as a sender may type it: plain, or a dictionary with narrow or wide keys."""
    index = rnd.choice([None, pa.uint8(), pa.uint16()])
    if index is None or len(set(values)) > 200:
        return pa.array(values, kind)
    words = sorted({value for value in values if value is not None}, key=repr)
    rnd.shuffle(words)
    keys = [None if value is None else words.index(value) for value in values]
    return pa.DictionaryArray.from_arrays(pa.array(keys, index), pa.array(words, kind))


def attributes(rnd: random.Random, parents: list[int], kind: pa.DataType) -> pa.RecordBatch:
    rows = []
    for parent in parents:
        keys = rnd.sample(["a", "b", "host.name", "k"], rnd.randrange(4))
        rows += [(parent, key, rnd.choice([0, 1, 1, 1, 2, 3, 4, 5, 7])) for key in keys]
    rnd.shuffle(rows)

    def of(wanted: tuple[int, ...], draw: Any) -> list[Any]:
        return [draw() if row[2] in wanted and rnd.random() < 0.9 else None for row in rows]

    return pa.record_batch(
        {
            "parent_id": pa.array([row[0] for row in rows], kind),
            "key": column(rnd, [row[1] for row in rows], pa.utf8()),
            "type": pa.array([row[2] for row in rows], pa.uint8()),
            "str": column(rnd, of((1,), lambda: rnd.choice(["x", "y", "ü", ""])), pa.utf8()),
            "int": column(rnd, of((2,), lambda: rnd.randrange(-2, 2)), pa.int64()),
            "double": pa.array(of((3,), lambda: rnd.choice([0.5, -1.0])), pa.float64()),
            "bool": pa.array(of((4,), lambda: rnd.random() < 0.5), pa.bool_()),
            "bytes": column(rnd, of((7,), lambda: rnd.choice([b"", b"\xff"])), pa.binary()),
            "ser": pa.array(of((5,), lambda: b"\xa0"), pa.binary()),
        }
    )


def shared(rnd: random.Random, rows: int, text: str) -> pa.StructArray:
    ids = [rnd.choice([0, 1, 5, None]) for _ in range(rows)]
    fields = {
        "id": pa.array(ids, pa.uint16()),
        text: column(rnd, [rnd.choice(["u", "v", None]) for _ in ids], pa.utf8()),
    }
    mask = pa.array([each is None and rnd.random() < 0.5 for each in ids], pa.bool_())
    kinds = [pa.field(name, array.type) for name, array in fields.items()]
    return pa.StructArray.from_arrays(list(fields.values()), fields=kinds, mask=mask)


def own(rnd: random.Random, slot: str, rows: int) -> dict[str, Any]:
    times = pa.array([rnd.randrange(1 << 60) for _ in range(rows)], pa.int64()).view(TIME)
    names = column(rnd, [rnd.choice(["get", "put", ""]) for _ in range(rows)], pa.utf8())
    ints = column(rnd, [rnd.choice([1, 2, None]) for _ in range(rows)], pa.int64())
    if slot == "logs":
        return {"time_unix_nano": times, "severity_text": names}
    if slot == "spans":
        return {"start_time_unix_nano": times, "name": names}
    if slot == "span_links":
        traces = [rnd.choice([b"a" * 16, b"b" * 16, None]) for _ in range(rows)]
        return {"trace_id": column(rnd, traces, pa.binary(16))}
    if slot.endswith("_exemplars") or slot == "number_data_points":
        return {"time_unix_nano": times, "int_value": ints}
    if slot == "histogram_data_points":
        counts = [[rnd.randrange(9) for _ in range(3)] for _ in range(rows)]
        return {"bucket_counts": pa.array(counts, pa.list_(pa.uint64()))}
    return {"time_unix_nano": times, "name": names} if slot == "span_events" else {"name": names}


def drawn_batch(signal: Signal, seed: int, rows: int = 20) -> Batch:
    """A batch with children of every kind, ids with holes and in any order."""
    rnd = random.Random(seed)
    slots: dict[str, pa.RecordBatch] = {}
    root = next(slot for slot, each in ROOTS.items() if each == signal)
    for name in ("resource", "scope"):
        slots[f"{name}_attrs"] = attributes(rnd, [0, 1, 5], pa.uint16())
    ids = rnd.sample(range(3 * rows), rows)
    given = [each if rnd.random() < 0.9 else None for each in ids]
    slots[root] = pa.record_batch(
        {
            "id": pa.array(given, pa.uint16()),
            "resource": shared(rnd, rows, "schema_url"),
            "scope": shared(rnd, rows, "name"),
            **own(rnd, root, rows),
        }
    )
    todo = [(root, [each for each in given if each is not None])]
    for slot, parents in todo:
        for child in TREES.get(slot, ()):
            narrow = slot in ROOTS
            kind = pa.uint16() if narrow else pa.uint32()
            if child.endswith("_attrs"):
                slots[child] = attributes(rnd, parents, kind)
                continue
            above = [each for each in parents for _ in range(rnd.randrange(3))]
            rnd.shuffle(above)
            below = rnd.sample(range(3 * len(above) + 1), len(above))
            slots[child] = pa.record_batch(
                {
                    "id": pa.array(below, pa.uint32()),
                    "parent_id": pa.array(above, kind),
                    **own(rnd, child, len(above)),
                }
            )
            todo.append((child, below))
    return Batch(
        signal, RecordBundle({name: each for name, each in slots.items() if each.num_rows})
    )


def told(batch: Batch) -> Counter[str]:
    """What a batch says: each record with all that hangs from it, in no order."""
    slots = {name: _plainly(each) for name, each in batch.bundle.items()}
    root = next(slot for slot in ROOTS if slot in slots)
    hung: dict[str, dict[Any, list[Any]]] = {}
    for name, rows in slots.items():
        hung[name] = defaultdict(list)
        for row in rows:
            hung[name][row.get("parent_id")].append(row)

    def whole(slot: str, row: dict[str, Any]) -> str:
        below = {
            child: sorted(whole(child, each) for each in hung.get(child, {}).get(row.get("id"), []))
            for child in TREES.get(slot, ())
            if row.get("id") is not None
        }
        said = {key: value for key, value in row.items() if key not in ("id", "parent_id")}
        for name in ("resource", "scope"):
            inner = dict(said.get(name) or {})
            number = inner.pop("id", None)
            found = hung.get(f"{name}_attrs", {}).get(number, []) if number is not None else []
            said[name] = (inner, sorted(whole("", each) for each in found))
            said[name] = said[name] if any(itertools.chain(inner.values(), said[name][1])) else None
        said = {key: value for key, value in said.items() if value is not None}
        return repr((sorted(said.items()), sorted((k, v) for k, v in below.items() if v)))

    return Counter(whole(root, row) for row in slots[root])


def _plainly(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    columns = {
        name: column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    return pa.record_batch(columns).to_pylist()
