"""Spans and metrics, from bytes to payloads of OTAP and back, are the same."""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from otlp_everything import everything
from otlp_model import (
    OUTSIDE,
    SHAPES,
    assert_same,
    canonical,
    count,
    fields_set,
    parse,
    signal_of,
    trimmed,
)
from otlp_respelled import respelled
from otlp_strategies import few, requests_of

import quiver.otel.otlp
from quiver.bundle import RecordBundle
from quiver.errors import InputError
from quiver.otel import Batch
from quiver.otel.otlp import Limits, decode, encode
from quiver.otel.signals import ROOT_SLOTS, Signal

BOTH = [Signal.TRACES, Signal.METRICS]


def read(request, **limits):
    return decode(signal_of(request), request.SerializeToString(), limits=Limits(**limits))


def back(batches):
    return [parse(each.signal, encode(each)) for each in batches]


@pytest.mark.parametrize("signal", BOTH)
def test_everything_comes_back_as_it_was(signal: Signal):
    request = everything(signal)
    (found,) = back(read(request))
    assert_same(found, trimmed(request))


@pytest.mark.parametrize("signal, more", [(Signal.TRACES, 4), (Signal.METRICS, 0)])
def test_many_items_in_any_spelling_come_back_as_they_were(signal: Signal, more: int):
    request, shape = everything(signal), SHAPES[signal]
    for resource in getattr(request, shape.resources):
        for scope in getattr(resource, shape.scopes):
            found = list(getattr(scope, shape.items))
            getattr(scope, shape.items).extend(found * more)
    data = respelled(request, random.Random(7))
    (found,) = back(decode(signal, data))
    assert_same(known(found), trimmed(request))


@few
@given(requests_of(BOTH))
def test_there_and_back_is_the_same_in_the_same_order(request):
    batches = read(request)
    assert len(batches) == (count(request) > 0)
    for found in back(batches):
        assert_same(found, trimmed(request))


@few
@given(requests_of(BOTH), st.integers(1, 4))
def test_several_batches_are_the_same(request, most):
    batches = read(request, batch_items=most)
    assert [each.items for each in batches[:-1]] == [most] * (len(batches) - 1)
    assert sum(each.items for each in batches) == count(request)
    if batches:
        assert_same(canonical(*back(batches)), canonical(request))


@few
@given(requests_of(BOTH), st.integers(0, 2**32))
def test_bytes_of_any_spelling_are_read(request, seed):
    signal, data = signal_of(request), respelled(request, random.Random(seed))
    assert_same(known(parse(signal, data)), request)
    for found in back(decode(signal, data)):
        assert_same(known(found), trimmed(request))


@few
@given(requests_of(BOTH), st.randoms(use_true_random=False))
def test_broken_bytes_are_read_as_the_library_reads_them_or_refused(request, chance):
    signal, data = signal_of(request), bytearray(request.SerializeToString())
    for _ in range(chance.choice([0, 1, 2])):
        if data:
            data[chance.randrange(len(data))] = chance.randrange(256)
    data = data[: chance.choice([len(data), chance.randint(0, len(data))])]
    try:
        wanted = parse(signal, bytes(data))
    except DecodeError:
        with pytest.raises(InputError):
            decode(signal, bytes(data))
        return
    batches = decode(signal, bytes(data))
    if not OUTSIDE & set(fields_set(wanted)):  # A byte may make a field of profiles.
        for found in back(batches):
            assert_same(known(found), known(trimmed(wanted)))


def known(request):
    request.DiscardUnknownFields()
    return request


@few
@given(requests_of(BOTH), st.integers(0, 2**32))
def test_rows_in_any_order_and_with_any_ids_are_the_same(request, seed):
    for batch in read(request):
        found = parse(batch.signal, encode(renumbered(batch, np.random.default_rng(seed))))
        assert_same(canonical(found), canonical(request))


def renumbered(batch: Batch, chance: np.random.Generator) -> Batch:
    """Give each row another id and another place, as a sender of OTAP may."""
    moved = {}
    names: dict[str, np.ndarray] = {}
    for slot, rows in batch.bundle.items():
        if "id" in rows.schema.names:
            names[slot] = chance.permutation(60000)[: rows.num_rows]
    for slot, rows in batch.bundle.items():
        told = {"id": names.get(slot), "parent_id": names.get(parent_of(slot, batch.signal))}
        changed = rows
        for name, those in told.items():
            if those is not None:
                changed = exchanged(changed, name, those[rows.column(name).to_numpy()])
        moved[slot] = changed.take(chance.permutation(rows.num_rows))
    return Batch(batch.signal, RecordBundle(moved))


def exchanged(rows: pa.RecordBatch, name: str, values: np.ndarray) -> pa.RecordBatch:
    at = rows.schema.get_field_index(name)
    return rows.set_column(at, name, pa.array(values).cast(rows.column(at).type))


def parent_of(slot: str, signal: Signal) -> str:
    if slot in {"resource_attrs", "scope_attrs", ROOT_SLOTS[signal]}:
        return ""
    if slot in {"span_event_attrs", "span_link_attrs"}:
        return slot.removesuffix("_attrs") + "s"
    if slot.endswith("_dp_exemplar_attrs"):
        return slot.removesuffix("_attrs") + "s"
    if slot.endswith(("_dp_attrs", "_dp_exemplars")):
        return slot.rpartition("_dp_")[0] + "_data_points"
    return ROOT_SLOTS[signal]


@pytest.mark.parametrize("signal", BOTH)
@pytest.mark.parametrize("kind", ["plain", "dictionary"])
def test_columns_may_be_plain_or_dictionaries(signal: Signal, kind: str):
    request = everything(signal)
    (batch,) = read(request)
    payloads = {slot: retyped(rows, kind) for slot, rows in batch.bundle.items()}
    (found,) = back([Batch(signal, RecordBundle(payloads))])
    assert_same(found, trimmed(request))


def retyped(rows: pa.RecordBatch, kind: str) -> pa.RecordBatch:
    return pa.record_batch(
        {
            name: retyped_column(column, kind)
            for name, column in zip(rows.schema.names, rows.columns, strict=True)
        }
    )


def retyped_column(column, kind: str):
    plain = column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column
    if kind == "plain" or pa.types.is_nested(plain.type):
        return plain
    return plain.dictionary_encode()


@pytest.mark.parametrize("signal", BOTH)
def test_what_belongs_to_nothing_is_left_out(signal: Signal):
    request = everything(signal)
    (batch,) = read(request)
    root = ROOT_SLOTS[signal]
    rows = batch.bundle[root]
    some = Batch(signal, RecordBundle({**batch.bundle, root: rows.slice(1, 2)}))
    (found,) = back([some])
    assert count(found) == 2
    scope = trimmed(request)
    shape = SHAPES[signal]
    whole = [i for r in getattr(scope, shape.resources) for s in getattr(r, shape.scopes)
             for i in getattr(s, shape.items)]  # fmt: skip
    kept = [i for r in getattr(found, shape.resources) for s in getattr(r, shape.scopes)
            for i in getattr(s, shape.items)]  # fmt: skip
    for one, other in zip(kept, whole[1:3], strict=True):
        assert_same(one, other)


def test_a_metric_of_a_kind_that_otap_does_not_know_is_refused():
    (batch,) = read(everything(Signal.METRICS))
    rows = exchanged(batch.bundle["univariate_metrics"], "metric_type", np.full(24, 9, np.uint8))
    payloads = RecordBundle({**batch.bundle, "univariate_metrics": rows})
    with pytest.raises(InputError, match="type 9"):
        encode(Batch(Signal.METRICS, payloads))


def test_metrics_of_which_nobody_knows_the_kind_are_refused():
    (batch,) = read(everything(Signal.METRICS))
    rows = batch.bundle["univariate_metrics"].drop_columns(["metric_type"])
    payloads = RecordBundle({**batch.bundle, "univariate_metrics": rows})
    with pytest.raises(InputError, match="metric_type"):
        encode(Batch(Signal.METRICS, payloads))


@pytest.mark.parametrize("signal", BOTH)
def test_values_lie_as_deep_as_the_library_reads_them(signal: Signal):
    for depth in range(42, 52):
        request = everything(signal)
        _nest(request, depth)
        data = request.SerializeToString()
        try:
            parse(signal, data)
        except DecodeError:
            with pytest.raises(InputError, match="deep"):
                decode(signal, data)
            return
        (found,) = back(decode(signal, data))
        assert_same(found, trimmed(request))
    raise AssertionError("the library reads any depth")


def _nest(request, depth):
    if isinstance(request, SHAPES[Signal.TRACES].request):
        span = request.resource_spans[0].scope_spans[0].spans[0]
        value = span.events[0].attributes.add(key="deep").value
    else:
        metric = request.resource_metrics[0].scope_metrics[0].metrics[1]
        value = metric.gauge.data_points[0].exemplars[0].filtered_attributes.add(key="deep").value
    for _ in range(depth):
        value = value.array_value.values.add()
    value.string_value = "bottom"


@pytest.mark.parametrize("signal", Signal)
def test_the_page_has_each_column(signal: Signal):
    page = (Path(quiver.otel.otlp.__file__).parent / "MAPPING.md").read_text()
    (batch,) = read(everything(signal))
    for slot, rows in batch.bundle.items():
        names = set(rows.schema.names)
        for kind in rows.schema.types:
            names |= {each.name for each in kind} if pa.types.is_struct(kind) else set()
        told = set(re.findall(r"\w+", page))
        assert names <= told, slot
        assert slot in told or slot.endswith("_attrs")
