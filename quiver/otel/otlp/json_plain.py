"""OTLP in JSON as nearly all senders write it, built by the library at once.

``json_format`` goes field by field in Python. Here plain values of the right kinds are put into a
``dict`` that the library itself makes a message of. Whatever is not plain (a null, a name written
twice, a text where a number is meant, base64) is an ``Unusual``, and left to
``json_format``, whose word it is what is right and what is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.message import Message

__all__ = ["UnusualError", "built"]

_WHOLE: Final = re.compile(r"0|-?[1-9][0-9]{0,19}")
_HEX: Final = re.compile(r"(?:[0-9a-fA-F]{2})*")
_IDS: Final = frozenset({"trace_id", "span_id", "parent_span_id"})
_ENUMS: Final = 1 << 31

Scalar: TypeAlias = Callable[[Any], object]


class UnusualError(Exception):
    """There is something that only ``json_format`` knows how to take."""


def built(kind: type[Message], told: object, *, depth: int) -> Message:
    """Make a message of JSON that was read; raises UnusualError, and changes nothing in it."""
    try:
        return kind(**_message(told, _plan(kind.DESCRIPTOR), depth))
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise UnusualError from error


class _Field:
    """What becomes of one field, by whichever of its names it comes."""

    __slots__ = ("below", "is_repeated", "name", "oneof", "scalar")

    def __init__(self, field: FieldDescriptor) -> None:
        self.name = field.name
        self.is_repeated = _is_repeated(field)
        whole = field.containing_oneof
        self.oneof = None if whole is None else whole.full_name
        self.below: dict[str, _Field] | None = None
        self.scalar: Scalar = _left
        if field.message_type is None:
            self.scalar = _scalar_of(field)


def _is_repeated(field: FieldDescriptor) -> bool:
    try:
        return bool(field.is_repeated)
    except AttributeError:  # Before 6.31 of the library.
        return bool(field.label == field.LABEL_REPEATED)


_Plan: TypeAlias = "dict[str, _Field]"
_PLANS: Final[dict[str, _Plan]] = {}


def _plan(kind: Descriptor) -> _Plan:
    """Tell what becomes of a message, by each name of each field; kinds may hold themselves."""
    plan = _PLANS.get(kind.full_name)
    if plan is not None:
        return plan
    found = [(field, _Field(field)) for field in kind.fields]
    plan = {name: made for field, made in found for name in (field.json_name, field.name)}
    _PLANS[kind.full_name] = plan
    for field, made in found:
        if field.message_type is not None:
            made.below = _plan(field.message_type)
    return plan


def _message(told: object, plan: _Plan, depth: int) -> dict[str, Any]:
    if type(told) is not dict or not depth:
        raise UnusualError
    out: dict[str, Any] = {}
    oneofs: list[str] = []
    for name, value in told.items():
        field = plan.get(name)
        if field is None:
            continue
        if value is None or field.name in out:
            raise UnusualError
        if field.oneof is not None:
            if field.oneof in oneofs:
                raise UnusualError
            oneofs.append(field.oneof)
        out[field.name] = _value(value, field, depth)
    return out


def _value(value: object, field: _Field, depth: int) -> object:
    below, scalar = field.below, field.scalar
    if not field.is_repeated:
        if below is None:
            return scalar(value)
        return _message(value, below, depth - 1)
    if type(value) is not list:
        raise UnusualError
    if below is None:
        return [scalar(each) for each in value]
    return [_message(each, below, depth - 1) for each in value]


def _left(_: object) -> object:
    raise UnusualError


def _text(value: object) -> object:
    if type(value) is not str:
        raise UnusualError
    return value


def _is_true(value: object) -> object:
    if type(value) is not bool:
        raise UnusualError
    return value


def _whole(value: object) -> object:
    if type(value) is str and _WHOLE.fullmatch(value):
        return int(value)
    if type(value) is not int:
        raise UnusualError
    return value


def _double(value: object) -> object:
    if type(value) is int:
        value = float(value)
    if type(value) is not float or not math.isfinite(value):
        raise UnusualError
    return value


def _id(value: object) -> object:
    if type(value) is not str or not _HEX.fullmatch(value):
        raise UnusualError
    return bytes.fromhex(value)


def _enum(value: object) -> object:
    if type(value) is not int or not -_ENUMS <= value < _ENUMS:
        raise UnusualError
    return value


def _scalar_of(field: FieldDescriptor) -> Scalar:
    whole = (
        *(field.TYPE_INT32, field.TYPE_INT64, field.TYPE_UINT32, field.TYPE_UINT64),
        *(field.TYPE_FIXED32, field.TYPE_FIXED64, field.TYPE_SFIXED32, field.TYPE_SFIXED64),
        *(field.TYPE_SINT32, field.TYPE_SINT64),
    )
    kinds: dict[int, Scalar] = dict.fromkeys(whole, _whole)
    kinds |= {field.TYPE_STRING: _text, field.TYPE_BOOL: _is_true, field.TYPE_DOUBLE: _double}
    kinds[field.TYPE_ENUM] = _enum
    if field.name in _IDS:
        kinds[field.TYPE_BYTES] = _id
    return kinds.get(field.type, _left)
