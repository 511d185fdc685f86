"""The model of OTLP that tests compare with: it reaches each field, and sees each difference."""

from __future__ import annotations

import itertools

import pytest
from google.protobuf.message import Message
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from otlp_everything import everything
from otlp_model import (
    OUTSIDE,
    SHAPES,
    all_fields,
    canonical,
    count,
    fields_set,
    items,
    map_messages,
    parse,
    same,
    signal_of,
    trimmed,
)
from otlp_strategies import few, messages, requests_of

from quiver.otel.signals import Signal


@pytest.mark.parametrize("signal", Signal)
def test_everything_has_each_field(signal: Signal):
    request = everything(signal)
    assert set(fields_set(request)) == all_fields(SHAPES[signal].request.DESCRIPTOR) - OUTSIDE
    assert count(request) > 5


def _kinds() -> dict[str, type[Message]]:
    """Give the class of each message that is an item or in one."""
    found: dict[str, type[Message]] = {}
    for signal in Signal:
        for item, _, _ in items(everything(signal)):
            map_messages(item, lambda each: found.setdefault(type(each).__name__, type(each)))
    return found


class AllReached(Exception):
    """There is nothing left to draw for."""


@pytest.mark.parametrize("kind", _kinds().values(), ids=lambda kind: kind.__name__)
def test_each_field_is_drawn(kind: type[Message]):
    left = {field.full_name for field in kind.DESCRIPTOR.fields} - OUTSIDE

    @settings(max_examples=600, derandomize=True, database=None, phases=[Phase.generate])
    @given(messages(kind, nesting=1))
    def gather(drawn: Message) -> None:
        left.difference_update(field.full_name for field, _ in drawn.ListFields())
        if not left:
            raise AllReached

    with pytest.raises(AllReached):
        gather()


@few
@given(requests_of())
def test_a_canonical_form_is_its_own(request):
    assert same(canonical(canonical(request)), canonical(request))
    assert same(canonical(trimmed(request)), canonical(request))


@few
@given(requests_of())
def test_no_item_is_dropped_or_merged(request):
    assert count(canonical(request)) == count(trimmed(request)) == count(request)


@few
@given(requests_of(), st.randoms(use_true_random=False))
def test_order_and_grouping_say_nothing(request, chance):
    found = list(items(request))
    chance.shuffle(found)
    shape = SHAPES[signal_of(request)]
    apart = shape.request()
    for item, scope, resource in found:
        top = getattr(apart, shape.resources).add()
        top.CopyFrom(resource)
        top.ClearField(shape.scopes)
        below = getattr(top, shape.scopes).add()
        below.CopyFrom(scope)
        below.ClearField(shape.items)
        getattr(below, shape.items).add().CopyFrom(item)
    assert same(canonical(apart), canonical(request))


@few
@given(requests_of())
def test_bytes_are_read_back(request):
    assert same(parse(signal_of(request), request.SerializeToString()), request)


def _log(**told):
    request = SHAPES[Signal.LOGS].request()
    container = request.resource_logs.add()
    record = container.scope_logs.add().log_records.add(**told)
    return request, container, record


def _one_unlike_the_others():
    """Logs that a careless adapter would take for each other."""
    yield _log()[0]
    yield _log(trace_id=bytes(16))[0]
    yield _log(time_unix_nano=2**64 - 1)[0]
    for change in (
        lambda container, record: record.body.SetInParent(),
        lambda container, record: record.body.array_value.SetInParent(),
        lambda container, record: record.body.kvlist_value.SetInParent(),
        lambda container, record: setattr(record.body, "string_value", ""),
        lambda container, record: setattr(record.body, "bytes_value", b""),
        lambda container, record: setattr(record.body, "int_value", 0),
        lambda container, record: setattr(record.body, "bool_value", False),
        lambda container, record: setattr(record.body, "double_value", 0.0),
        lambda container, record: setattr(record.body, "double_value", -0.0),
        lambda container, record: record.attributes.add(key="a"),
        lambda container, record: record.attributes.add(key="a").value.SetInParent(),
        lambda container, record: [record.attributes.add(key="a") for _ in range(2)],
        lambda container, record: container.resource.SetInParent(),
        lambda container, record: container.resource.entity_refs.add(),
        lambda container, record: container.scope_logs[0].scope.SetInParent(),
        lambda container, record: setattr(container, "schema_url", "s"),
        lambda container, record: setattr(container.scope_logs[0], "schema_url", "s"),
    ):
        request, container, record = _log()
        change(container, record)
        yield request


def test_what_proto3_tells_apart_stays_apart():
    for left, right in itertools.combinations(_one_unlike_the_others(), 2):
        assert not same(canonical(left), canonical(right)), f"{left} is not {right}"
