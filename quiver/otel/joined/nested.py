"""Lists and maps of attributes as JSON."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

from quiver.errors import InputError
from quiver.otel.otlp.uncbor import cbor_as_list, cbor_as_map

__all__ = ["json_of_cbor"]

_ROOM: Final = 64
_MAP_MAJOR: Final = 5


def json_of_cbor(data: bytes) -> str:
    """Say a list or map in JSON; what is none in base64, since a row must not fail a query."""
    from opentelemetry.proto.common.v1.common_pb2 import ArrayValue, KeyValueList

    try:
        if data[:1] and data[0] >> 5 == _MAP_MAJOR:
            value = _map(KeyValueList.FromString(cbor_as_map(data, _ROOM)))
        else:
            value = _list(ArrayValue.FromString(cbor_as_list(data, _ROOM)))
    except InputError:
        value = base64.b64encode(data).decode()
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _map(found: Any) -> Any:  # noqa: ANN401 - a message of protobuf
    return {each.key: _value(each.value) for each in found.values}


def _list(found: Any) -> Any:  # noqa: ANN401
    return [_value(each) for each in found.values]


def _value(found: Any) -> Any:  # noqa: ANN401
    kind = found.WhichOneof("value")
    if kind is None:
        return None
    value = getattr(found, kind)
    if kind == "array_value":
        return _list(value)
    if kind == "kvlist_value":
        return _map(value)
    return base64.b64encode(value).decode() if kind == "bytes_value" else value
