"""Columns of messages as a command line has them: ``id:int64 not null, at:timestamp[us, UTC]``.

Types have the names that Arrow gives them: ``int64``, ``string``, ``binary``, ``bool``, ``date32``,
``timestamp[us]``, ``timestamp[us, UTC]``, ``decimal128(10, 2)``, ``list<TYPE>``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from quiver.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

    from quiver.source.parser import MessageParser

__all__ = ["columns_of", "parser_of"]

_NOT_NULL: Final = re.compile(r"\s+not\s+null$", re.IGNORECASE)
_ZONED: Final = re.compile(r"timestamp\[(s|ms|us|ns),\s*([^\]\s]+)\]")
_DECIMAL: Final = re.compile(r"decimal(32|64|128|256)\((\d{1,3}),\s*(-?\d{1,3})\)")
_LIST: Final = re.compile(r"list<(.+)>")
_DEPTH_MAX: Final = 16
_OPEN, _CLOSE = "<[(", ">])"


def parser_of(
    messages: str | None, columns: str | None, carry: str | None, *, dead_letters: str | None
) -> MessageParser | None:
    """Make the parser that somebody has asked for; None if messages stay as they are."""
    if messages is None:
        for name, value in (("columns", columns), ("carry", carry), ("dead-letters", dead_letters)):
            if value is not None:
                raise ConfigError(f"--{name} needs --messages", hint="--messages json")
        return None
    from quiver.source.parser import MessageParser

    if columns is None:
        raise ConfigError("--messages needs --columns", hint='--columns "id:int64, text:string"')
    return MessageParser(
        messages,
        columns_of(columns),
        carry=[name.strip() for name in carry.split(",")] if carry else (),
        on_error="error" if dead_letters is None else "dead_letter",
    )


def columns_of(text: str) -> pa.Schema:
    """Read a description of columns; raises ConfigError that names the one that is none."""
    import pyarrow as pa

    fields: list[pa.Field[Any]] = []
    for part in _split(text):
        name, colon, kind = part.partition(":")
        nullable = _NOT_NULL.search(kind) is None
        if not (name.strip() and colon):
            raise ConfigError(f"--columns: {part.strip()!r} is not NAME:TYPE", hint="id:int64")
        fields.append(pa.field(name.strip(), _type(_NOT_NULL.sub("", kind).strip()), nullable))
    return pa.schema(fields)


def _split(text: str) -> Iterator[str]:
    """Cut at the commas that stand in no brackets."""
    depth = begun = 0
    for place, letter in enumerate(text):
        depth += (letter in _OPEN) - (letter in _CLOSE)
        if letter == "," and not depth:
            yield text[begun:place]
            begun = place + 1
    yield text[begun:]


def _type(text: str, depth: int = 0) -> pa.DataType:
    import pyarrow as pa

    try:
        if zoned := _ZONED.fullmatch(text):
            stamp: Any = pa.timestamp
            return _known(stamp(zoned[1], zoned[2]))
        if decimal := _DECIMAL.fullmatch(text):
            make: Any = getattr(pa, f"decimal{decimal[1]}")
            return _known(make(int(decimal[2]), int(decimal[3])))
        if depth < _DEPTH_MAX and (inner := _LIST.fullmatch(text)):
            return pa.list_(_type(inner[1].strip(), depth + 1))
        alias: Any = pa.type_for_alias
        return _known(alias(text))
    except (ValueError, TypeError, pa.ArrowException) as error:
        raise ConfigError(
            f"--columns: {text!r} is no type",
            hint="int64, double, string, binary, bool, date32, timestamp[us, UTC], list<int64>",
        ) from error


def _known(kind: pa.DataType) -> pa.DataType:
    """Give a type that the stubs of pyarrow want as a literal."""
    return kind
