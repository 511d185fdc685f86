"""Whether rows are the same, column by column: what ``keys`` tells by bytes, sooner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from quiver.casts.nested import decode
from quiver.upsert.rows.columns import Array, Mask, children, is_true, numbers, valid
from quiver.upsert.rows.keys import exact_bytes, key_bytes

__all__ = ["same_keys", "same_values"]

_COMPARED: Final[tuple[Callable[[Any], bool], ...]] = (
    kinds.is_boolean,
    kinds.is_string,
    kinds.is_large_string,
    kinds.is_binary,
    kinds.is_large_binary,
)
"""What Arrow compares bit by bit."""


def same_keys(left: pa.StructArray, right: pa.StructArray) -> Mask:
    """Tell where two columns of keys, of one type, have the same key."""
    return _same_children(left, right, exact=False)


def same_values(left: pa.StructArray, right: pa.StructArray) -> Mask:
    """Tell where two columns of values, of one type, are the same to the last bit."""
    return _same_children(left, right, exact=True) & (valid(left) == valid(right))


def _same_children(left: Array, right: Array, *, exact: bool) -> Mask:
    same = np.ones(len(left), np.bool_)
    for one, other in zip(children(left), children(right), strict=True):
        same &= _same(one, other, exact=exact)
    return same


def _same(left: Array, right: Array, *, exact: bool) -> Mask:
    left, right = decode(left), decode(right)
    kind = left.type
    if kinds.is_struct(kind):
        return (valid(left) == valid(right)) & _same_children(left, right, exact=exact)
    if any(belongs(kind) for belongs in _COMPARED):
        equal = is_true(pc.equal(left, right))
    elif _is_number(kind) and (exact or not kinds.is_floating(kind)):
        unsigned = f"<u{kind.bit_width // 8}"
        equal = numbers(left, unsigned) == numbers(right, unsigned)
    else:
        return _same_bytes(left, right, exact=exact)
    there = valid(left)
    return (there == valid(right)) & (equal | ~there)


def _is_number(kind: Any) -> bool:  # noqa: ANN401
    return bool(kinds.is_primitive(kind) and not kinds.is_interval(kind))


def _same_bytes(left: Array, right: Array, *, exact: bool) -> Mask:
    to_bytes = exact_bytes if exact else key_bytes
    one, other = (
        to_bytes(pa.StructArray.from_arrays([array], names=[""])) for array in (left, right)
    )
    return is_true(pc.equal(one, other))
