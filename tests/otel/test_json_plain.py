"""The quick way to read OTLP in JSON gives what the library's own gives, or leaves it to that."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from otlp_everything import everything
from otlp_model import signal_of
from otlp_strategies import few, requests_of

from quiver.errors import InputError
from quiver.otel.otlp import json_text, to_json
from quiver.otel.otlp.json_plain import UnusualError, built
from quiver.otel.otlp.library import request_class
from quiver.otel.signals import Signal

DEPTH = 100


def both(signal: Signal, text: str) -> tuple[object, object]:
    """Give what the quick way makes of a text, and the other; None is left, a text a refusal."""
    kind = request_class(signal)
    try:
        slow: object = json_text._by_library(signal, json.loads(text))
    except InputError as error:
        slow = error.message
    told = json.loads(text)
    try:
        quick: object = built(kind, told, depth=DEPTH).SerializeToString()
    except UnusualError:
        quick = None
    assert json.dumps(told) == json.dumps(json.loads(text))
    return quick, slow


@few
@given(requests_of())
def test_what_is_written_reads_the_same_either_way(request):
    signal = signal_of(request)
    quick, slow = both(signal, to_json(signal, request.SerializeToString()))
    assert quick in (slow, None)


@pytest.mark.parametrize("signal", Signal)
def test_what_senders_write_is_read_quickly(signal):
    request = everything(signal)
    values = request.SerializeToString()
    told = json.loads(to_json(signal, values))
    quick, slow = both(signal, json.dumps(_plain(told)))
    assert quick == slow
    assert quick is not None


def _plain(told: object) -> object:
    """Leave out what is rare: bytes, and numbers that JSON has no word for."""
    if isinstance(told, list):
        return [_plain(each) for each in told]
    if not isinstance(told, dict):
        return told
    rare = ("NaN", "Infinity", "-Infinity")
    return {
        name: _plain(value)
        for name, value in told.items()
        if name != "bytesValue"
        and not (isinstance(value, str) and value in rare)
        and not (isinstance(value, list) and any(each in rare for each in value))
    }


NAMES = ["resourceSpans", "scopeSpans", "spans", "spanId", "kind", "status", "attributes", "value"]
NAMES += ["key", "intValue", "int_value", "doubleValue", "boolValue", "arrayValue", "flags", "name"]
LEAVES = st.sampled_from(["", "00", "x", "0", "-0", "07", "-7", " 1", "9" * 25, 2**63, 1e400, 2.0])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(width=16) | LEAVES,
    lambda inside: (
        st.lists(inside, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inside, max_size=3)
    ),
    max_leaves=12,
)
SPAN = ["resourceSpans", "scopeSpans", "spans"]


@few
@given(ANYTHING, st.sampled_from([[], SPAN[:1], SPAN, [*SPAN, "attributes"]]), st.data())
def test_anything_is_read_the_same_or_left(told, path, data):
    if path and path[-1] == "attributes":
        name = data.draw(st.sampled_from(NAMES[8:]))
        told = {"key": "k", "value": {name: told}}
    for name in reversed(path):
        told = {name: [told]}
    quick, slow = both(Signal.TRACES, json.dumps(told))
    assert quick in (slow, None)


@pytest.mark.parametrize("depth", [2, DEPTH])
def test_what_lies_too_deep_is_left(depth):
    text = '{"resourceLogs":[{"resource":{"attributes":[]}}]}'
    kind = request_class(Signal.LOGS)
    if depth == DEPTH:
        assert built(kind, json.loads(text), depth=depth).resource_logs[0].HasField("resource")
    else:
        with pytest.raises(UnusualError):
            built(kind, json.loads(text), depth=depth)
