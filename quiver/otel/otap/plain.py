"""Ids as they are, out of ids as they travel.

To compress better, senders write an id as the difference to the one in the row before: in the whole
column, or where some other columns are the same in both rows, and otherwise as it is. The metadata
of a field may say so (``encoding``: ``plain``, ``delta``, ``quasidelta``); if it does not, a column
is encoded in the way that its payload type has. What is stored has plain ids and says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from quiver.errors import InputError
from quiver.otel.otap.columns import ENCODING, IDS, STORED_TIME, IdColumn, is_time

__all__ = [
    "VALUE_COLUMNS",
    "find_column",
    "groups_begin",
    "plain_batch",
    "plain_ids",
    "put_back",
    "timely",
]

VALUE_COLUMNS: Final = {1: "str", 2: "int", 3: "double", 4: "bool", 7: "bytes"}
"""Where the value of an attribute is, by its type; of other types no two rows are ever the same."""

_TYPES: Final = 8

_Ids = npt.NDArray[np.uint64]
_Flags = npt.NDArray[np.bool_]


def plain_batch(
    slot: str, batch: pa.RecordBatch, *, unsaid_is_plain: bool = False
) -> pa.RecordBatch:
    """Decode the ids of one payload whose columns were checked; its times are typed as stored.

    Raises InputError if ids are not there, of no known encoding, or not distinct.
    """
    _check_types(slot, batch)
    for column in IDS[slot]:
        found = find_column(batch, column.path)
        if found is None:
            continue
        field, array = found
        how = _encoding(slot, column, field, unsaid_is_plain=unsaid_is_plain)
        if column.required and array.null_count:
            raise InputError(f"column {slot}.{column.name} has rows without a value")
        plain = plain_ids(array, column, how=how, batch=batch)
        if column.path == ("id",):
            _check_distinct(slot, plain)
        batch = put_back(batch, column.path, plain, metadata=None)
    return timely(batch, STORED_TIME)


def plain_ids(
    array: pa.Array[Any], column: IdColumn, *, how: str, batch: pa.RecordBatch
) -> pa.Array[Any]:
    """Decode one column; nulls are no part of any sum, and stay what they are."""
    kind = pa.uint16() if column.bits == 16 else pa.uint32()  # noqa: PLR2004 - there are two widths
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    if how == "plain":
        return array
    known = array.drop_null()
    ids: _Ids = known.to_numpy().astype(np.uint64)
    sums = np.cumsum(ids, dtype=np.uint64)
    if how == "quasidelta":
        starts = np.flatnonzero(groups_begin(batch, column))
        base = sums[starts] - ids[starts]
        sums = sums - np.repeat(base, np.diff(np.append(starts, len(ids))))
    # As senders compute them: what is beyond the width wraps around.
    plain = (sums & np.uint64((1 << column.bits) - 1)).astype(kind.to_pandas_dtype())
    if not array.null_count:
        return pa.array(plain, kind)
    spread = np.zeros(len(array), kind.to_pandas_dtype())
    missing: _Flags = array.is_null().to_numpy(zero_copy_only=False)
    spread[~missing] = plain
    return pa.array(spread, kind, mask=missing)


def groups_begin(batch: pa.RecordBatch, column: IdColumn) -> _Flags:
    """Find the rows that are not the same as the one before in what this column goes by."""
    begins = np.ones(batch.num_rows, np.bool_)
    if batch.num_rows < 2:  # noqa: PLR2004 - one row has none before it
        return begins
    groups = column.groups or ()
    if "value" not in groups:
        same = np.ones(batch.num_rows - 1, np.bool_)
        for name in groups:
            if name in batch.schema.names:
                same &= _same_as_before(batch.column(name), nulls=True)
    else:
        same = _same_as_before(batch.column("type")) & _same_as_before(batch.column("key"))
        same &= _same_values(batch)
    begins[1:] = ~same
    return begins


def _same_values(batch: pa.RecordBatch) -> _Flags:
    kinds = _numbers(batch.column("type"))[1:]
    same = np.zeros(batch.num_rows - 1, np.bool_)
    for kind, name in VALUE_COLUMNS.items():
        if name in batch.schema.names:
            of_kind = kinds == kind
            if of_kind.any():
                same |= of_kind & _same_as_before(batch.column(name))
    return same


def _same_as_before(array: pa.Array[Any], *, nulls: bool = False) -> _Flags:
    """Compare each row but the first with the one before; ``nulls``: whether two nulls are same."""
    if isinstance(array, pa.DictionaryArray):
        # A word may be in a dictionary twice.
        words = array.dictionary.dictionary_encode().indices
        array = words.take(array.indices)
    equal: Any = pc.equal(array[1:], array[:-1])
    if nulls and array.null_count:
        missing: _Flags = array.is_null().to_numpy(zero_copy_only=False)
        both: _Flags = missing[1:] & missing[:-1]
        found: _Flags = equal.fill_null(fill_value=False).to_numpy(zero_copy_only=False) | both
        return found
    flags: _Flags = equal.fill_null(fill_value=False).to_numpy(zero_copy_only=False)
    return flags


def _numbers(array: pa.Array[Any]) -> npt.NDArray[Any]:
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    numbers: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return numbers


def _check_types(slot: str, batch: pa.RecordBatch) -> None:
    """Refuse attributes without key or type, and types that nobody knows."""
    if not slot.endswith("_attrs") or not batch.num_rows:
        return
    for name in ("key", "type"):
        if batch.column(name).null_count:
            raise InputError(f"column {slot}.{name} has rows without a value")
    highest = int(_numbers(batch.column("type")).max())
    if highest >= _TYPES:
        raise InputError(f"an attribute in {slot} has the unknown type {highest}")


def _check_distinct(slot: str, ids: pa.Array[Any]) -> None:
    known = ids.drop_null()
    if len(known) and pc.count_distinct(known).as_py() != len(known):
        raise InputError(f"two rows of {slot} have the same id")


def _encoding(slot: str, column: IdColumn, field: pa.Field[Any], *, unsaid_is_plain: bool) -> str:
    metadata: Any = field.metadata
    said = (metadata or {}).get(ENCODING)
    if said is None:
        if unsaid_is_plain:
            return "plain"
        return "delta" if column.groups is None else "quasidelta"
    how = said.decode("utf-8", "replace")
    if how not in ("plain", "delta", "quasidelta") or (how == "quasidelta" and not column.groups):
        raise InputError(f"column {slot}.{'.'.join(column.path)} has the unknown encoding {how!r}")
    return how


def find_column(
    batch: pa.RecordBatch, path: Sequence[str]
) -> tuple[pa.Field[Any], pa.Array[Any]] | None:
    """Give the field and the values at a path, if it is there; nulls of a struct are not seen."""
    index = batch.schema.get_field_index(path[0])
    if index < 0:
        return None
    field, array = batch.schema.field(index), batch.column(index)
    if len(path) == 1:
        return field, array
    inner: Any = array
    child = inner.type.get_field_index(path[1])
    return None if child < 0 else (inner.type.field(child), inner.field(child))


def put_back(
    batch: pa.RecordBatch,
    path: Sequence[str],
    array: pa.Array[Any],
    *,
    metadata: dict[bytes, bytes] | None,
) -> pa.RecordBatch:
    """Replace the column at a path that is there, and the metadata of its field."""
    index = batch.schema.get_field_index(path[0])
    field = batch.schema.field(index)
    if len(path) == 1:
        new = pa.field(field.name, array.type, field.nullable, metadata)
        return batch.set_column(index, new, array)
    outer: Any = batch.column(index)
    fields = [outer.type.field(each) for each in range(outer.type.num_fields)]
    children = [outer.field(each) for each in range(outer.type.num_fields)]
    child = outer.type.get_field_index(path[1])
    fields[child] = pa.field(path[1], array.type, fields[child].nullable, metadata)
    children[child] = array
    mask = outer.is_null() if outer.null_count else None
    built = pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    return batch.set_column(index, field.with_type(built.type), built)


def timely(batch: pa.RecordBatch, kind: pa.DataType) -> pa.RecordBatch:
    """Give all times of a batch the type ``kind``; none of their bits changes."""
    for index, field in enumerate(batch.schema):
        if field.type != kind and is_time(field.type):
            times: Any = batch.column(index).view(pa.int64()).view(kind)
            batch = batch.set_column(index, field.with_type(kind), times)
    return batch
