"""Which columns a payload of OTAP may have, of which types, and how its ids may be encoded.

Every column may be absent but those that tie a row to its parent. Any but an ``id`` may be a
dictionary with keys of 8 or 16 bits. Columns that are not known here are let through: a newer
sender may say more than we know, and to drop it would be a loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa

from quiver.errors import InputError
from quiver.otel.signals import PAYLOADS, Signal

__all__ = [
    "ENCODING",
    "IDS",
    "NUMBERS",
    "STORED_TIME",
    "TIME",
    "Encoding",
    "IdColumn",
    "check_columns",
    "is_time",
    "payload_slots",
]

ENCODING: Final = b"encoding"
"""The key in the metadata of a field that says how its ids are encoded."""

TIME: Final = pa.timestamp("ns", "UTC")
"""What senders must write; readers also take ``+00:00``, and none at all from older senders."""

STORED_TIME: Final = pa.timestamp("ns")
"""How times are stored, whoever sent them."""

_ZONES: Final = ("UTC", "+00:00", None)

Encoding: TypeAlias = tuple[str, ...] | None
"""How ids are encoded if nothing is said: None, differences in the whole column.

Otherwise differences only where these columns are the same as in the row before.
"""


@dataclass(frozen=True, slots=True)
class IdColumn:
    """A column of ids by its path, how wide they are, and what is compared to encode them."""

    path: tuple[str, ...]
    bits: int
    groups: Encoding = None
    required: bool = False

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path[-1]


_ROOT_IDS: Final = (
    IdColumn(("id",), 16),
    IdColumn(("resource", "id"), 16),
    IdColumn(("scope", "id"), 16),
)
_VALUES: Final = ("type", "key", "value")
"""The value of an attribute is in the column that its type names."""


def _children(parent_bits: int, *groups: str) -> tuple[IdColumn, ...]:
    return (
        IdColumn(("id",), 32),
        IdColumn(("parent_id",), parent_bits, groups or None, required=True),
    )


def _ids(slot: str) -> tuple[IdColumn, ...]:
    if slot in ("logs", "spans", "univariate_metrics"):
        return _ROOT_IDS
    if slot.endswith("_attrs"):
        narrow = slot in (
            "resource_attrs",
            "scope_attrs",
            "log_attrs",
            "span_attrs",
            "metric_attrs",
        )
        return (IdColumn(("parent_id",), 16 if narrow else 32, _VALUES, required=True),)
    if slot.endswith("_exemplars"):
        return _children(32, "int_value", "double_value")
    groups = {"span_events": ("name",), "span_links": ("trace_id",)}
    return _children(16, *groups.get(slot, ()))


def payload_slots(signal: Signal) -> Mapping[int, str]:
    """Give the slots that a stream of a signal may fill, by payload type.

    Multivariate metrics are named by the protocol and described nowhere: they are refused.
    """
    return _SLOTS[signal]


_SHARED: Final = {1: "resource_attrs", 2: "scope_attrs"}
_SLOTS: Final = {
    signal: _SHARED
    | {number: slot for slot, number in slots.items() if slot != "multivariate_metrics"}
    for signal, slots in PAYLOADS.items()
}

NUMBERS: Final = {slot: number for slots in _SLOTS.values() for number, slot in slots.items()}
"""The payload type of each slot that may be sent."""

IDS: Final = {slot: _ids(slot) for slot in NUMBERS}
"""The columns of ids that the payload of a slot may have."""

_Shape: TypeAlias = "pa.DataType | Mapping[str, _Shape]"

_U8, _U16, _U32, _U64 = pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()
_I32, _I64, _F64, _BOOL = pa.int32(), pa.int64(), pa.float64(), pa.bool_()
_TEXT, _BYTES, _ID8, _ID16 = pa.utf8(), pa.binary(), pa.binary(8), pa.binary(16)

_VALUE: Final = {
    "type": _U8,
    "str": _TEXT,
    "int": _I64,
    "double": _F64,
    "bool": _BOOL,
    "bytes": _BYTES,
    "ser": _BYTES,
}
_DROPPED: Final = {"dropped_attributes_count": _U32}
_ROOT: Final = {
    "id": _U16,
    "resource": {"id": _U16, "schema_url": _TEXT, **_DROPPED},
    "scope": {"id": _U16, "name": _TEXT, "version": _TEXT, **_DROPPED},
    "schema_url": _TEXT,
}
_POINT: Final = {
    "id": _U32,
    "parent_id": _U16,
    "start_time_unix_nano": TIME,
    "time_unix_nano": TIME,
    "flags": _U32,
}
_TOTALS: Final = {"count": _U64, "sum": _F64}
_ENDS: Final = {"min": _F64, "max": _F64}
_QUANTILE: Final = pa.struct([pa.field("quantile", _F64), pa.field("value", _F64)])
_EXEMPLARS: Final = {
    "id": _U32,
    "parent_id": _U32,
    "time_unix_nano": TIME,
    "int_value": _I64,
    "double_value": _F64,
    "span_id": _ID8,
    "trace_id": _ID16,
}
_COLUMNS: Final[Mapping[str, Mapping[str, Any]]] = {
    "logs": {
        **_ROOT,
        **_DROPPED,
        "time_unix_nano": TIME,
        "observed_time_unix_nano": TIME,
        "trace_id": _ID16,
        "span_id": _ID8,
        "severity_number": _I32,
        "severity_text": _TEXT,
        "event_name": _TEXT,
        "body": _VALUE,
        "flags": _U32,
    },
    "spans": {
        **_ROOT,
        **_DROPPED,
        "start_time_unix_nano": TIME,
        "duration_time_unix_nano": pa.duration("ns"),
        "trace_id": _ID16,
        "span_id": _ID8,
        "trace_state": _TEXT,
        "parent_span_id": _ID8,
        "flags": _U32,
        "name": _TEXT,
        "kind": _I32,
        "dropped_events_count": _U32,
        "dropped_links_count": _U32,
        "status": {"code": _I32, "status_message": _TEXT},
    },
    "span_events": {
        "id": _U32,
        "parent_id": _U16,
        "time_unix_nano": TIME,
        "name": _TEXT,
        **_DROPPED,
    },
    "span_links": {
        "id": _U32,
        "parent_id": _U16,
        "trace_id": _ID16,
        "span_id": _ID8,
        "trace_state": _TEXT,
        **_DROPPED,
    },
    "univariate_metrics": {
        **_ROOT,
        "metric_type": _U8,
        "name": _TEXT,
        "description": _TEXT,
        "unit": _TEXT,
        "aggregation_temporality": _I32,
        "is_monotonic": _BOOL,
    },
    "number_data_points": {**_POINT, "int_value": _I64, "double_value": _F64},
    "summary_data_points": {**_POINT, **_TOTALS, "quantile": pa.list_(_QUANTILE)},
    "histogram_data_points": {
        **_POINT,
        **_TOTALS,
        **_ENDS,
        "bucket_counts": pa.list_(_U64),
        "explicit_bounds": pa.list_(_F64),
    },
    "exp_histogram_data_points": {
        **_POINT,
        **_TOTALS,
        **_ENDS,
        "scale": _I32,
        "zero_count": _U64,
        "positive_offset": _I32,
        "positive_bucket_counts": pa.list_(_U64),
        "negative_offset": _I32,
        "negative_bucket_counts": pa.list_(_U64),
    },
}


def check_columns(slot: str, schema: pa.Schema) -> None:
    """Raise InputError if a known column has another type, is there twice, or lacks its parent."""
    shape = _shape_of(slot)
    fields = list(schema)
    _check_fields(slot, fields, shape)
    names = {field.name for field in fields}
    needed = [column.name for column in IDS[slot] if column.required]
    needed += ["key", "type"] if slot.endswith("_attrs") else []
    for name in needed:
        if name not in names:
            raise InputError(f"a payload {slot} has no column {name!r}")


def _shape_of(slot: str) -> Mapping[str, Any]:
    if slot in _COLUMNS:
        return _COLUMNS[slot]
    if slot.endswith("_exemplars"):
        return _EXEMPLARS
    parent = _U16 if IDS[slot][0].bits == 16 else _U32  # noqa: PLR2004 - there are two widths
    return {**_VALUE, "parent_id": parent, "key": _TEXT}


def _check_fields(place: str, fields: Sequence[pa.Field[Any]], shape: Mapping[str, Any]) -> None:
    seen: set[str] = set()
    for field in fields:
        if field.name in seen:
            raise InputError(f"a payload has two columns {place}.{field.name}")
        seen.add(field.name)
        wanted = shape.get(field.name)
        if isinstance(wanted, Mapping):
            if not pa.types.is_struct(field.type):
                raise _unfit(f"{place}.{field.name}", field.type, "struct")
            inner = [field.type.field(index) for index in range(field.type.num_fields)]
            _check_fields(f"{place}.{field.name}", inner, wanted)
        elif wanted is not None and not _fits(field, wanted):
            raise _unfit(f"{place}.{field.name}", field.type, str(wanted))


def _fits(field: pa.Field[Any], wanted: pa.DataType) -> bool:
    found = field.type
    if isinstance(found, pa.DictionaryType) and field.name != "id":
        return found.index_type in (_U8, _U16) and _same(found.value_type, wanted)
    return _same(found, wanted)


def _same(found: pa.DataType, wanted: pa.DataType) -> bool:
    if wanted == TIME:
        return is_time(found)
    if isinstance(wanted, pa.ListType):
        return isinstance(found, pa.ListType) and _same(found.value_type, wanted.value_type)
    if isinstance(wanted, pa.StructType):
        if not isinstance(found, pa.StructType):
            return False
        inner = {found.field(index).name: found.field(index) for index in range(found.num_fields)}
        return len(inner) == found.num_fields and all(
            inner[each.name].type == each.type for each in wanted if each.name in inner
        )
    return bool(found == wanted)


def is_time(kind: pa.DataType) -> bool:
    """Whether it is a time as OTAP has them: nanoseconds, UTC, which may go without saying."""
    return isinstance(kind, pa.TimestampType) and kind.unit == "ns" and kind.tz in _ZONES


def _unfit(place: str, found: pa.DataType, wanted: str) -> InputError:
    return InputError(f"column {place} has the type {found}", hint=f"it should be {wanted}")
