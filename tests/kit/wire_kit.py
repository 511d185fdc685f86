"""A message of every kind of field, known to protobuf, and read and written by the wire."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from quiver.otel.wire import (
    Messages,
    Ranges,
    Source,
    binaries,
    fixed32,
    fixed64,
    read,
    repeated_fixed64,
    repeated_varints,
    span,
    varint,
    whole,
)

FAR = 200
TAGS = [varint(1), fixed64(2), fixed32(3), span(4), span(5), span(8), varint(FAR)]
TAGS += [span(6), fixed64(6), span(7), varint(7)]


def _message_type() -> Any:
    kinds = descriptor_pb2.FieldDescriptorProto
    fields = [
        ("number", 1, kinds.TYPE_UINT64, False),
        ("word", 2, kinds.TYPE_FIXED64, False),
        ("half", 3, kinds.TYPE_FIXED32, False),
        ("octets", 4, kinds.TYPE_BYTES, False),
        ("inner", 5, kinds.TYPE_MESSAGE, True),
        ("words", 6, kinds.TYPE_FIXED64, True),
        ("numbers", 7, kinds.TYPE_UINT64, True),
        ("one", 8, kinds.TYPE_MESSAGE, False),
        ("far", FAR, kinds.TYPE_UINT64, False),
    ]
    file = descriptor_pb2.FileDescriptorProto(name="wire_kit.proto", syntax="proto3")
    message = file.message_type.add(name="Every")
    for name, number, kind, repeated in fields:
        label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
        field = message.field.add(name=name, number=number, type=kind, label=label)
        if kind == kinds.TYPE_MESSAGE:
            field.type_name = ".Every"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Every"))


Every = _message_type()


def as_protobuf_reads(message: Any) -> dict[str, Any]:
    """Give what protobuf found, as values to compare."""
    plain = ("number", "word", "half", "octets", "far")
    return {
        **{name: getattr(message, name) for name in plain},
        "words": list(message.words),
        "numbers": list(message.numbers),
        "inner": [as_protobuf_reads(each) for each in message.inner],
        "one": as_protobuf_reads(message.one) if message.HasField("one") else None,
    }


def as_wire_reads(data: bytes) -> dict[str, Any]:
    """Read with the wire, all messages of a level at once, as the same values."""
    source = Source(data)
    return _level(source, whole(source), 1)[0]


def _level(source: Source, messages: Ranges, count: int) -> list[dict[str, Any]]:
    if not count:
        return []
    level = read(source, messages, TAGS, count=count)
    start, end = level.last_range(4)
    columns = {
        "number": level.last(varint(1)).tolist(),
        "word": level.last(fixed64(2)).tolist(),
        "half": level.last(fixed32(3)).tolist(),
        "octets": [each or b"" for each in binaries(source, start, end).to_pylist()],
        "far": level.last(varint(FAR)).tolist(),
    }
    out = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    for row in out:
        row |= {"words": [], "numbers": [], "inner": [], "one": None}
    for name, found in (
        ("words", repeated_fixed64(source, level, 6)),
        ("numbers", repeated_varints(source, level, 7)),
    ):
        for owner, value in zip(found.owner.tolist(), found.value.tolist(), strict=True):
            out[owner][name].append(value)
    inner = level.ranges(5)
    for owner, each in zip(
        inner.owner.tolist(), _level(source, inner.each_its_own(), inner.size), strict=True
    ):
        out[owner]["inner"].append(each)
    one = level.ranges(8)
    whose, numbers = np.unique(one.owner, return_inverse=True)
    for owner, each in zip(
        whose.tolist(),
        _level(source, Ranges(numbers, one.start, one.end), whose.size),
        strict=True,
    ):
        out[owner]["one"] = each
    return out


def as_wire_writes(values: list[dict[str, Any]]) -> Messages:
    """Write what ``as_protobuf_reads`` gave, level by level."""
    out = Messages(len(values))

    def longs(name: str) -> Any:
        return np.array([each[name] for each in values], np.uint64)

    def counts(name: str) -> Any:
        return np.array([len(each[name]) for each in values], np.int64)

    def flat(name: str) -> Any:
        return np.array([n for each in values for n in each[name]], np.uint64)

    out.varint(1, longs("number"), longs("number") > 0)
    out.fixed64(2, longs("word"), longs("word") > 0)
    out.fixed32(3, longs("half").astype(np.uint32), longs("half") > 0)
    octets = pa.array([each["octets"] or None for each in values], pa.binary())
    out.text(4, octets)
    inner = [each for value in values for each in value["inner"]]
    if inner:
        out.children(5, as_wire_writes(inner), counts("inner"))
    out.packed_fixed64(6, flat("words"), counts("words"))
    out.packed_varints(7, flat("numbers"), counts("numbers"))
    ones = [each["one"] for each in values if each["one"] is not None]
    if ones:
        has = np.array([each["one"] is not None for each in values])
        out.children(8, as_wire_writes(ones), has.astype(np.int64))
    out.varint(FAR, longs("far"), longs("far") > 0)
    return out
