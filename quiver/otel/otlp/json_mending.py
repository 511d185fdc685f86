"""What OTLP writes otherwise in JSON than protobuf does: changed in place, there and back."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

__all__ = ["READING", "WRITING", "MendError", "Mender"]

_IDS: Final = frozenset({"trace_id", "span_id", "parent_span_id"})
_BASE64: Final = re.compile(r"(?:[\w+/-]{4})*(?:[\w+/-]{2}(?:==)?|[\w+/-]{3}=?)?", re.ASCII)
_DIGITS: Final = re.compile(r"-?[0-9]{1,10}")
_ENUMS: Final = 1 << 31
_HEX: Final = re.compile(r"(?:[0-9a-fA-F]{2})*")

Change: TypeAlias = "Callable[[object, FieldDescriptor], object]"
Plan: TypeAlias = "Mapping[str, tuple[FieldDescriptor, Change | None]]"


class MendError(Exception):
    """A value does not fit its field."""

    def __init__(self, place: str, what: str) -> None:
        super().__init__(f"at {place}, {what}")
        self.place = place
        self.what = what


class Mender:
    """Changes the values of some fields of a message that is told as JSON."""

    def __init__(self, change_of: Callable[[FieldDescriptor], Change | None]) -> None:
        """``change_of`` tells what becomes of the values of a field, None if they stay."""
        self._change_of = change_of
        self._plans: dict[str, Plan] = {}

    def mend(self, told: object, kind: Descriptor, *, depth: int) -> None:
        """Change all that is in an object of JSON; raises MendError, RecursionError if too deep.

        The library takes a list without elements for a message: here it is refused in lists.
        """
        self._mend(told, self._plan(kind), (kind.name, depth))

    def _mend(self, told: object, plan: Plan, at: tuple[str, int]) -> None:
        place, depth = at
        if not isinstance(told, dict):
            raise MendError(place, "there is no object")
        if not depth:
            raise RecursionError
        for name, value in told.items():
            if value is None or name not in plan:
                continue
            field, change = plan[name]
            where = f"{place}.{name}"
            if change is not None:
                told[name] = _changed(change, value, (where, field))
                continue
            below = self._plan(field.message_type)
            if isinstance(value, list):
                for index, each in enumerate(value):
                    self._mend(each, below, (f"{where}[{index}]", depth - 1))
            else:
                self._mend(value, below, (where, depth - 1))

    def _plan(self, kind: Descriptor) -> Plan:
        """Tell what becomes of a message, by each name that a field of it may have."""
        plan = self._plans.get(kind.full_name)
        if plan is None:
            found = [(each, self._change_of(each)) for each in kind.fields]
            kept = [each for each in found if each[1] is not None or each[0].message_type]
            plan = {name: each for each in kept for name in (each[0].json_name, each[0].name)}
            self._plans[kind.full_name] = plan
        return plan


def _changed(change: Change, value: object, at: tuple[str, FieldDescriptor]) -> object:
    place, field = at
    try:
        return change(value, field)
    except ValueError as error:
        raise MendError(place, str(error)) from None


def _id_in(value: object, _: FieldDescriptor) -> str:
    if not isinstance(value, str) or not _HEX.fullmatch(value):
        raise ValueError("an id is no hexadecimal text")
    return base64.b64encode(bytes.fromhex(value)).decode()


def _id_out(value: object, _: FieldDescriptor) -> str:
    return base64.b64decode(str(value)).hex()


def _bytes_in(value: object, _: FieldDescriptor) -> str:
    """Check what the library would take with letters left out; both alphabets are valid."""
    if not isinstance(value, str) or not _BASE64.fullmatch(value):
        raise ValueError("bytes are no base64")
    return value


def _enum_in(value: object, field: FieldDescriptor) -> int:
    """Take a number or a name; the library cuts long numbers and passes over unknown names."""
    number: object = value
    if isinstance(value, str):
        known = field.enum_type.values_by_name.get(value)
        number = known.number if known else _number(value)
    elif isinstance(value, float) and value.is_integer():
        number = int(value)
    if isinstance(number, int) and not isinstance(number, bool) and -_ENUMS <= number < _ENUMS:
        return number
    raise ValueError("an enum has no such value")


def _number(text: str) -> int | None:
    return int(text) if _DIGITS.fullmatch(text) else None


def _change_in(field: FieldDescriptor) -> Change | None:
    if field.type == field.TYPE_BYTES:
        return _id_in if field.name in _IDS else _bytes_in
    return _enum_in if field.type == field.TYPE_ENUM else None


def _change_out(field: FieldDescriptor) -> Change | None:
    return _id_out if field.type == field.TYPE_BYTES and field.name in _IDS else None


READING: Final = Mender(_change_in)
"""Makes what protobuf's library reads of what OTLP writes."""
WRITING: Final = Mender(_change_out)
"""Makes what OTLP writes of what protobuf's library writes."""
