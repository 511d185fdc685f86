"""OTLP as JSON: what protobuf says of JSON, but that ids are hexadecimal and enums are numbers."""

from __future__ import annotations

import json
import re
from typing import Final, NoReturn

from quiver.errors import InputError
from quiver.otel.otlp.json_mending import READING, WRITING, MendError
from quiver.otel.otlp.json_plain import UnusualError, built
from quiver.otel.otlp.library import request_class
from quiver.otel.signals import Signal

__all__ = ["JSON_BYTES_MAX", "JSON_VALUES_MAX", "from_json", "to_json"]

JSON_BYTES_MAX: Final = 64 << 20
"""How long a text may be."""
JSON_VALUES_MAX: Final = 1 << 20
"""How many objects and lists it may hold; each takes memory, however short its text is."""

_DEPTH_MAX: Final = 100
_PLACE: Final = re.compile(r" at ([A-Za-z]+(?:\.\w+|\[\d+\])*)")
_HINT: Final = "see https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding"


def from_json(signal: Signal, text: str | bytes | memoryview) -> bytes:
    """Give the bytes of a request that came as JSON; raises InputError if it is none.

    Fields that OTLP does not know are passed over. 64-bit numbers may be numbers or strings,
    enums numbers or names, names of fields lowerCamelCase or as the .proto files have them.
    """
    told = _load(signal, _checked(signal, text))
    try:
        return built(request_class(signal), told, depth=_DEPTH_MAX).SerializeToString()
    except UnusualError:
        return _by_library(signal, told)


def _by_library(signal: Signal, told: object) -> bytes:
    """Do the same with all that JSON may have; what was read is changed."""
    from google.protobuf import json_format

    request = request_class(signal)()
    root = request.DESCRIPTOR.name
    try:
        READING.mend(told, request.DESCRIPTOR, depth=_DEPTH_MAX)
        json_format.ParseDict(
            told, request, ignore_unknown_fields=True, max_recursion_depth=_DEPTH_MAX
        )
        return request.SerializeToString()
    except MendError as error:
        _refuse(signal, error.place, error.what)
    except RecursionError:
        _refuse(signal, root, "values lie too deep in each other")
    except (json_format.Error, ValueError, TypeError, AttributeError) as error:
        # What the library says tells the value too, which is nobody's business.
        place = _PLACE.search(str(error))
        _refuse(signal, place[1] if place else root, "a value does not fit its field")


def to_json(signal: Signal, request: bytes | memoryview) -> str:
    """Give a request as JSON, compact and on one line; raises InputError if it is none."""
    from google.protobuf import json_format
    from google.protobuf.message import DecodeError

    parsed = request_class(signal)()
    try:
        parsed.ParseFromString(bytes(request))
    except DecodeError:
        raise InputError(f"this is no OTLP request of {signal}: not a protobuf message") from None
    told = json_format.MessageToDict(parsed, use_integers_for_enums=True)
    WRITING.mend(told, parsed.DESCRIPTOR, depth=_DEPTH_MAX)
    return json.dumps(told, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _checked(signal: Signal, text: str | bytes | memoryview) -> str:
    size = len(text) if isinstance(text, str) else memoryview(text).nbytes
    if size > JSON_BYTES_MAX:
        raise InputError(f"a request of {size} bytes of JSON; at most {JSON_BYTES_MAX} are read")
    if not isinstance(text, str):
        try:
            text = bytes(text).decode()
        except UnicodeDecodeError as error:
            _refuse(signal, f"byte {error.start}", "there is no UTF-8")
    values = text.count("{") + text.count("[")
    if values > JSON_VALUES_MAX:
        raise InputError(f"a request of {values} values of JSON; at most {JSON_VALUES_MAX}")
    return text


def _load(signal: Signal, text: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_unquoted)
    except json.JSONDecodeError as error:
        _refuse(signal, f"line {error.lineno}, column {error.colno}", "there is no JSON")
    except RecursionError:
        _refuse(signal, "its start", "values lie too deep in each other")
    except _TwiceError:
        _refuse(signal, "an object", "a name comes twice")
    except ValueError:  # A number of thousands of digits, or NaN without quotes.
        _refuse(signal, "a number", "no field can hold it")


class _TwiceError(ValueError):
    """An object has a name twice: to take either would lose the other."""


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _TwiceError
    return found


def _unquoted(name: str) -> NoReturn:
    raise ValueError(name)


def _refuse(signal: Signal, place: str, what: str) -> NoReturn:
    raise InputError(
        f"this is no OTLP/JSON request of {signal}: at {place}, {what}", hint=_HINT
    ) from None
