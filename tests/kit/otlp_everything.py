"""One request of a signal that holds everything: each field set, each choice taken."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass
from otlp_model import OUTSIDE, SHAPES

from quiver.otel.signals import Signal

_NESTING: Final = 2
_IDS: Final[Mapping[str, int]] = {"trace_id": 16, "span_id": 8, "parent_span_id": 8}
_START: Final = 1_763_900_000_000_000_000


def everything(signal: Signal) -> Any:
    """Make a request in which no two values of one field are equal, where its type has enough."""
    (request,) = _Maker().variants(SHAPES[signal].request.DESCRIPTOR, _NESTING)
    return request


class _Maker:
    def __init__(self) -> None:
        self._numbers = count(1)

    def variants(self, kind: Descriptor, nesting: int) -> list[Any]:
        """Make one message for each choice that a message has, itself or in a single part."""
        choice = next((each for each in kind.oneofs if len(each.fields) > 1), None)
        ways: list[FieldDescriptor | None] = [None]
        if choice is not None:
            ways += [each for each in choice.fields if each.full_name not in OUTSIDE]
        fields = [
            each
            for each in kind.fields
            if each.full_name not in OUTSIDE and (choice is None or each not in choice.fields)
        ]
        made = []
        for way in ways:
            if way is not None and way.message_type is not None and not nesting:
                continue
            made.append(GetMessageClass(kind)())
            for field in [*fields, *([way] if way is not None else [])]:
                self._fill(made[-1], field, nesting)
        parts = [each for each in fields if each.message_type and not each.is_repeated]
        for part in parts:
            made += self._with_part(made[0], part, nesting)
        return made

    def _fill(self, message: Any, field: FieldDescriptor, nesting: int) -> None:
        deeper = nesting - (field.name in {"array_value", "kvlist_value"})
        if field.message_type is None:
            if field.is_repeated:
                getattr(message, field.name).extend(self._value(field) for _ in range(3))
            else:
                setattr(message, field.name, self._value(field))
        elif field.is_repeated:
            getattr(message, field.name).extend(self.variants(field.message_type, deeper))
        else:
            getattr(message, field.name).CopyFrom(self.variants(field.message_type, deeper)[-1])

    def _with_part(self, message: Any, part: FieldDescriptor, nesting: int) -> list[Any]:
        """Copy a message with each other form of a part, and with none."""
        copies = []
        for each in [None, *self.variants(part.message_type, nesting)[:-1]]:
            copy = type(message)()
            copy.CopyFrom(message)
            copy.ClearField(part.name)
            if each is not None:
                getattr(copy, part.name).CopyFrom(each)
            copies.append(copy)
        return copies

    def _value(self, field: FieldDescriptor) -> Any:
        number = next(self._numbers)
        if field.type == FieldDescriptor.TYPE_STRING:
            return f"{field.name} {number}"
        if field.type == FieldDescriptor.TYPE_BYTES:
            return number.to_bytes(_IDS.get(field.name, 3), "big")
        if field.type == FieldDescriptor.TYPE_BOOL:
            return True
        if field.type == FieldDescriptor.TYPE_DOUBLE:
            return number + 0.25
        if field.type == FieldDescriptor.TYPE_ENUM:
            return 1 + number % 2
        return _START + number if field.name.endswith("_nano") else number
