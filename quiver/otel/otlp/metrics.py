"""Metrics, their data points of five kinds, and exemplars: tables of OTAP as data."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from quiver.otel.otlp.forms import TIME, Id, Number, Text, Wire
from quiver.otel.otlp.limits import ITEM_VALUE_DEPTH
from quiver.otel.otlp.metric_data import Data, Kind
from quiver.otel.otlp.nested import Attributes, Below, Part, Repeated, RepeatedPart, Table
from quiver.otel.wire import fixed64

__all__ = ["METRICS"]

_U16, _U32, _U64 = pa.uint16(), pa.uint32(), pa.uint64()
_I32, _I64, _F64 = pa.int32(), pa.int64(), pa.float64()
_POINT_DEPTH: Final = ITEM_VALUE_DEPTH + 2
_EXEMPLAR_DEPTH: Final = ITEM_VALUE_DEPTH + 3


def _exemplars(number: int, of: str) -> Below:
    entries = (
        Number(2, "time_unix_nano", Wire.FIXED64, TIME),
        Number(3, "double_value", Wire.FIXED64, _F64, optional=True, rivals=(fixed64(6),)),
        Id(4, "span_id", 8),
        Id(5, "trace_id", 16),
        Number(6, "int_value", Wire.FIXED64, _I64, optional=True, rivals=(fixed64(3),)),
        Attributes(7, f"{of}_dp_exemplar_attrs", _U32, _EXEMPLAR_DEPTH),
    )
    return Below(number, Table(f"{of}_dp_exemplars", _U32, entries), _U32)


def _value(number: int, name: str, kind: pa.DataType, *, rival: int) -> Number:
    rivals = (fixed64(rival),)
    return Number(number, name, Wire.FIXED64, kind, needed=True, optional=True, rivals=rivals)


_TIMES: Final = (
    Number(2, "start_time_unix_nano", Wire.FIXED64, TIME, needed=True),
    Number(3, "time_unix_nano", Wire.FIXED64, TIME, needed=True),
)

_NUMBER_POINTS: Final = Table(
    "number_data_points",
    _U32,
    (
        *_TIMES,
        _value(4, "double_value", _F64, rival=6),
        _exemplars(5, "number"),
        _value(6, "int_value", _I64, rival=4),
        Attributes(7, "number_dp_attrs", _U32, _POINT_DEPTH),
        Number(8, "flags", Wire.VARINT, _U32),
    ),
)

_SUMMARY_POINTS: Final = Table(
    "summary_data_points",
    _U32,
    (
        *_TIMES,
        Number(4, "count", Wire.FIXED64, _U64),
        Number(5, "sum", Wire.FIXED64, _F64),
        RepeatedPart(
            6,
            "quantile",
            (
                Number(1, "quantile", Wire.FIXED64, _F64, needed=True),
                Number(2, "value", Wire.FIXED64, _F64, needed=True),
            ),
        ),
        Attributes(7, "summary_dp_attrs", _U32, _POINT_DEPTH),
        Number(8, "flags", Wire.VARINT, _U32),
    ),
)

_HISTOGRAM_POINTS: Final = Table(
    "histogram_data_points",
    _U32,
    (
        *_TIMES,
        Number(4, "count", Wire.FIXED64, _U64),
        Number(5, "sum", Wire.FIXED64, _F64, optional=True),
        Repeated(6, "bucket_counts", Wire.FIXED64, _U64, needed=True),
        Repeated(7, "explicit_bounds", Wire.FIXED64, _F64, needed=True),
        _exemplars(8, "histogram"),
        Attributes(9, "histogram_dp_attrs", _U32, _POINT_DEPTH),
        Number(10, "flags", Wire.VARINT, _U32),
        Number(11, "min", Wire.FIXED64, _F64, optional=True),
        Number(12, "max", Wire.FIXED64, _F64, optional=True),
    ),
)

_BUCKETS: Final = (
    Number(1, "offset", Wire.ZIGZAG, _I32, needed=True),
    Repeated(2, "bucket_counts", Wire.VARINT, _U64, needed=True),
)

_EXP_HISTOGRAM_POINTS: Final = Table(
    "exp_histogram_data_points",
    _U32,
    (
        Attributes(1, "exp_histogram_dp_attrs", _U32, _POINT_DEPTH),
        *_TIMES,
        Number(4, "count", Wire.FIXED64, _U64),
        Number(5, "sum", Wire.FIXED64, _F64, optional=True),
        Number(6, "scale", Wire.ZIGZAG, _I32),
        Number(7, "zero_count", Wire.FIXED64, _U64),
        Part(8, "positive", _BUCKETS, needed=True),
        Part(9, "negative", _BUCKETS, needed=True),
        Number(10, "flags", Wire.VARINT, _U32),
        _exemplars(11, "exp_histogram"),
        Number(12, "min", Wire.FIXED64, _F64, optional=True),
        Number(13, "max", Wire.FIXED64, _F64, optional=True),
        Number(14, "zero_threshold", Wire.FIXED64, _F64),
    ),
)

METRICS: Final = Table(
    "univariate_metrics",
    _U16,
    (
        Text(1, "name", needed=True),
        Text(2, "description"),
        Text(3, "unit"),
        Data(
            (
                Kind(5, 1, Below(1, _NUMBER_POINTS, _U16)),
                Kind(7, 2, Below(1, _NUMBER_POINTS, _U16), is_aggregated=True, is_sum=True),
                Kind(9, 3, Below(1, _HISTOGRAM_POINTS, _U16), is_aggregated=True),
                Kind(10, 4, Below(1, _EXP_HISTOGRAM_POINTS, _U16), is_aggregated=True),
                Kind(11, 5, Below(1, _SUMMARY_POINTS, _U16)),
            )
        ),
        Attributes(12, "metric_attrs", _U16, ITEM_VALUE_DEPTH),
    ),
)
