"""Bytes that mean the same to protobuf and are written as no library writes them."""

from __future__ import annotations

import random
import struct
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

_FIXED64 = {FieldDescriptor.TYPE_FIXED64, FieldDescriptor.TYPE_SFIXED64}
_FIXED32 = {FieldDescriptor.TYPE_FIXED32}
_ZIGZAG = {FieldDescriptor.TYPE_SINT32}
_LATER = 1500  # A field that no message of OTLP has.


def respelled(message: Message, chance: random.Random) -> bytes:
    """Write a message with its fields in any order, in parts, with unknown ones, and wide varints.

    Fields of one number stay in their order, and parts of one message that choose stay together.
    """
    told = [_fields(message, field, value, chance) for field, value in message.ListFields()]
    told += [[_unknown(chance)] for _ in range(chance.choice([0, 0, 1]))]
    out = []
    while told:
        of_it = chance.choice(told)
        out.append(of_it.pop(0))
        told = [each for each in told if each]
    return b"".join(out)


def _fields(
    message: Message, field: FieldDescriptor, value: Any, chance: random.Random
) -> list[bytes]:
    values = list(value) if field.is_repeated else [value]
    if field.message_type is not None:
        bodies = [respelled(each, chance) for each in values]
        if not field.is_repeated and not field.message_type.oneofs and chance.random() < 0.3:
            bodies = _parts(value, chance)
        return [_range(field.number, each, chance) for each in bodies]
    if field.is_repeated and field.type != FieldDescriptor.TYPE_STRING:
        return _numbers(field, values, chance)
    return [_one(field, each, chance) for each in values]


def _parts(message: Message, chance: random.Random) -> list[bytes]:
    """Share the fields of a single message among two: a reader puts them together."""
    parts = type(message)(), type(message)()
    for field, _ in message.ListFields():
        chosen = chance.choice(parts)
        one = type(message)()
        one.CopyFrom(message)
        for other, _ in message.ListFields():
            if other.name != field.name:
                one.ClearField(other.name)
        chosen.MergeFrom(one)
    return [respelled(each, chance) for each in parts]


def _numbers(field: FieldDescriptor, values: list[Any], chance: random.Random) -> list[bytes]:
    """Write repeated numbers packed, not packed, or in packs."""
    if chance.random() < 0.3:
        return [_one(field, each, chance) for each in values]
    cut = chance.randint(0, len(values))
    packs = [values[:cut], values[cut:]]
    return [
        _range(field.number, b"".join(_bare(field, v, chance) for v in p), chance) for p in packs
    ]


def _one(field: FieldDescriptor, value: Any, chance: random.Random) -> bytes:
    if field.type in {FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES}:
        return _range(field.number, value.encode() if isinstance(value, str) else value, chance)
    if field.type in _FIXED64 or field.type == FieldDescriptor.TYPE_DOUBLE:
        kind = 1
    else:
        kind = 5 if field.type in _FIXED32 else 0
    return _varint(field.number << 3 | kind, chance) + _bare(field, value, chance)


def _bare(field: FieldDescriptor, value: Any, chance: random.Random) -> bytes:
    if field.type == FieldDescriptor.TYPE_DOUBLE:
        return struct.pack("<d", value)
    if field.type in _FIXED64:
        return (value % 2**64).to_bytes(8, "little")
    if field.type in _FIXED32:
        return value.to_bytes(4, "little")
    if field.type in _ZIGZAG:
        value = value << 1 ^ value >> 31
    return _varint(int(value) % 2**64, chance)


def _range(number: int, content: bytes, chance: random.Random) -> bytes:
    return _varint(number << 3 | 2, chance) + _varint(len(content), chance) + content


def _varint(value: int, chance: random.Random) -> bytes:
    """Write a varint, now and then with zeros that it does not need; tags and lengths have 5."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    if len(out) < 5 and chance.random() < 0.1:
        out[-1] |= 0x80
        out.append(0)
    return bytes(out)


def _unknown(chance: random.Random) -> bytes:
    number = chance.choice([_LATER, 15000, 2**29 - 1])
    kind = chance.choice([0, 1, 2, 5])
    body = {0: b"\xff\x01", 1: b"12345678", 2: b"\x03\xff\x00\x0a", 5: b"1234"}[kind]
    return _varint(number << 3 | kind, random.Random(0)) + body
