"""Where text may be cut: behind whole lines of NDJSON, behind whole records of CSV."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["csv_cut", "first_record", "line_cut"]

_QUOTE: Final = b'"'


def line_cut(data: bytes, *, is_last: bool) -> int:
    """Say how many bytes are whole lines; at the end of a file all are."""
    return len(data) if is_last else data.rfind(b"\n") + 1


def csv_cut(data: bytes, separator: bytes, *, is_last: bool) -> int | None:
    """Say how many bytes are whole records, which ``data`` begins with; None: a quote is open.

    A line break inside of quotes ends no record. Without quotes it is a matter of line breaks;
    with some, fields are walked one by one, for a quote inside of an unquoted field opens nothing.
    """
    if _QUOTE not in data:
        return line_cut(data, is_last=is_last)
    record = _record(separator)
    place = 0
    while match := record.match(data, place):
        place = match.end()
    if not is_last:
        return place
    rest = re.compile(_fields(separator) + rb"\Z").match(data, place)
    return len(data) if place == len(data) or rest else None


def first_record(data: bytes, separator: bytes) -> int:
    """Say where the first record of CSV ends; 0 if it does not."""
    match = _record(separator).match(data)
    return match.end() if match else 0


def _fields(separator: bytes) -> bytes:
    """Fields of one record; one that begins with a quote goes on to the one that closes it."""
    sign = re.escape(separator)
    edge = sign + rb"\r\n"
    field = rb'(?:"(?:[^"]++|"")*+"[^%b]*+|(?!")[^%b]*+)' % (edge, edge)
    return rb"%b(?:%b%b)*+" % (field, sign, field)


def _record(separator: bytes) -> re.Pattern[bytes]:
    return re.compile(_fields(separator) + rb"(?:\r\n|\n|\r(?!\n|\Z))")
