"""Requests of OTLP for property tests: each field, and what is likely to go wrong in it.

Made from the descriptors of the library, so that no field is forgotten: what is unlike its type
(ids, times, names that come again) stands in a table by name.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass
from hypothesis import settings
from hypothesis import strategies as st
from otlp_model import OUTSIDE, SHAPES

from quiver.otel.signals import Signal

EXAMPLES: Final = int(os.environ.get("QUIVER_OTLP_EXAMPLES", "15"))
"""How many examples a property test of OTLP takes; a long run says more."""

few = settings(max_examples=EXAMPLES)
"""For each property test that draws whole requests: they are large."""

NESTING: Final = 3
"""How deep lists and maps of attributes stand in each other here; a test of its own goes deeper."""

_WORDS: Final = [
    "",
    "a",
    "service.name",
    "http.method",
    "GET",
    "é",
    "\x00",
    "日本",
    "🔥",
    "x" * 300,
]
_U64: Final = [0, 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1]
_NOW: Final = 1_763_900_000_000_000_000
_DOUBLES: Final = [0.0, -0.0, 1.5, float("inf"), float("-inf"), float("nan"), 5e-324, 1e308]

_text = st.sampled_from(_WORDS) | st.text(max_size=4)
_u64 = st.sampled_from(_U64) | st.integers(0, 2**64 - 1)
_times = st.sampled_from([_NOW, _NOW + 1, *_U64]) | st.integers(_NOW, _NOW + 10**9)
_u32 = st.sampled_from([0, 1, 255, 256, 2**31, 2**32 - 1]) | st.integers(0, 1000)
_i32 = st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31)]) | st.integers(-100, 100)
_i64 = st.sampled_from([0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63)]) | st.integers(-1000, 1000)
_doubles = st.sampled_from(_DOUBLES) | st.floats()
_enums = st.integers(0, 5) | _i32

_BY_TYPE: Final[Mapping[int, st.SearchStrategy[Any]]] = {
    FieldDescriptor.TYPE_STRING: _text,
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=5),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_DOUBLE: _doubles,
    FieldDescriptor.TYPE_ENUM: _enums,
    FieldDescriptor.TYPE_INT32: _i32,
    FieldDescriptor.TYPE_SINT32: _i32,
    FieldDescriptor.TYPE_UINT32: _u32,
    FieldDescriptor.TYPE_FIXED32: _u32,
    FieldDescriptor.TYPE_INT64: _i64,
    FieldDescriptor.TYPE_SFIXED64: _i64,
    FieldDescriptor.TYPE_UINT64: _u64,
    FieldDescriptor.TYPE_FIXED64: _u64,
}


def _ids(length: int) -> st.SearchStrategy[bytes]:
    """Ids that come again, ids of zeros, and now and then one of a length that is wrong."""
    usual = [bytes(length), bytes(range(length)), b"\xff" * length]
    wrong = [b"\x01", bytes(length - 1), bytes(length + 1)]
    return st.sampled_from(usual * 2 + wrong) | st.binary(min_size=length, max_size=length)


_BY_NAME: Final[Mapping[str, st.SearchStrategy[Any]]] = {
    "trace_id": _ids(16),
    "span_id": _ids(8),
    "parent_span_id": _ids(8),
    "time_unix_nano": _times,
    "start_time_unix_nano": _times,
    "end_time_unix_nano": _times,
    "observed_time_unix_nano": _times,
    "key": st.sampled_from(["", "a", "b", "service.name"]) | st.text(max_size=3),
    "schema_url": st.sampled_from(["", "https://opentelemetry.io/schemas/1.37.0", "s"]),
}
_TREE: Final = frozenset({"array_value", "kvlist_value"})
_CONTAINERS: Final = frozenset(
    name for shape in SHAPES.values() for name in (shape.resources, shape.scopes, shape.items)
)
_SHORT: Final = st.sampled_from([0, 1, 2])
_LONGER: Final = st.sampled_from([0, 1, 2, 3, 1, 2])
_WAYS: Final = 4
"""A message of so few fields is a container: without what it holds it says little."""


def requests(signal: Signal) -> st.SearchStrategy[Any]:
    """Requests of one signal, of any shape, the empty one too."""
    return messages(SHAPES[signal].request)


def any_values(nesting: int = NESTING) -> st.SearchStrategy[Any]:
    """AnyValue of each kind, and of none, with lists and maps inside each other."""
    return _messages(_kind("AnyValue"), nesting)


def key_values(nesting: int = NESTING) -> st.SearchStrategy[Any]:
    """KeyValue with a value of each kind, an empty one, or none."""
    return _messages(_kind("KeyValue"), nesting)


def messages(kind: type[Any], nesting: int = NESTING) -> st.SearchStrategy[Any]:
    """Messages of a class of the library: each field set or not, each list short."""
    return _messages(kind.DESCRIPTOR, nesting)


@st.composite
def _messages(draw: st.DrawFn, kind: Descriptor, nesting: int) -> Any:
    message = GetMessageClass(kind)()
    fields = _choose(draw, kind, nesting)
    for field in fields:
        below = nesting - (field.name in _TREE)
        if field.is_repeated:
            length = draw(_LONGER if field.name in _CONTAINERS else _SHORT)
            found = [draw(_values(field, below)) for _ in range(length)]
            getattr(message, field.name).extend(found)
        elif field.message_type is not None:
            part = getattr(message, field.name)
            part.SetInParent()
            part.MergeFrom(draw(_values(field, below)))
        else:
            setattr(message, field.name, draw(_values(field, below)))
    return message


def _choose(draw: st.DrawFn, kind: Descriptor, nesting: int) -> list[FieldDescriptor]:
    """Pick the fields to set: of those that exclude each other at most one."""
    picked: list[FieldDescriptor] = []
    usual = [each for each in kind.fields if not _chosen_with_others(each)]
    mask = draw(_masks(len(usual))) | draw(_masks(len(usual)))  # Three of four are set.
    bound = len(usual) <= _WAYS
    for at, field in enumerate(usual):
        if field.full_name not in OUTSIDE and (mask >> at & 1 or (bound and field.is_repeated)):
            picked.append(field)
    for oneof in kind.oneofs:
        if len(oneof.fields) > 1:
            ways = [each for each in oneof.fields if _is_open(each, nesting)]
            picked += draw(st.sampled_from([[], *([each] for each in ways)]))
    return picked


def _masks(fields: int) -> st.SearchStrategy[int]:
    return st.integers(0, 2**fields - 1)


def _chosen_with_others(field: FieldDescriptor) -> bool:
    return field.containing_oneof is not None and len(field.containing_oneof.fields) > 1


def _is_open(field: FieldDescriptor, nesting: int) -> bool:
    return field.full_name not in OUTSIDE and (nesting > 0 or field.name not in _TREE)


def _values(field: FieldDescriptor, nesting: int) -> st.SearchStrategy[Any]:
    if field.message_type is not None:
        return _messages(field.message_type, nesting)
    if field.type == FieldDescriptor.TYPE_STRING or field.name.endswith(("_id", "_nano")):
        return _BY_NAME.get(field.name, _BY_TYPE[field.type])
    return _BY_TYPE[field.type]


def _kind(name: str) -> Descriptor:
    log = SHAPES[Signal.LOGS].request.DESCRIPTOR.file.pool
    return log.FindMessageTypeByName(f"opentelemetry.proto.common.v1.{name}")


def requests_of(signals: Sequence[Signal] = tuple(Signal)) -> st.SearchStrategy[Any]:
    """Requests of any of these signals."""
    return st.sampled_from(list(signals)).flatmap(requests)
