"""The manifest: one row for each bundle, in order, with the chunks that fill its slots.

Columns of version 1: ``bundle_index`` and ``slot_refs``, a list of (``slot_id``, ``stream_id``,
``chunk_index``). All rows are checked at once, as columns; an entry is made only when asked for, so
that a segment of millions of bundles costs no more to open than its bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from quiver.arrays import integers
from quiver.errors import DamagedEntry
from quiver.ipc import encode_file
from quiver.segment.tables import (
    NANOSECONDS,
    BundleEntry,
    Column,
    SlotRef,
    StreamEntry,
    find_column,
    need_column,
    read_table,
    take_times,
)
from quiver.slots import SLOTS_MAX

__all__ = ["BundleColumns", "Manifest", "Manifests", "References", "encode_manifest"]

_REF: Final = (("slot_id", pa.uint16()), ("stream_id", pa.uint32()), ("chunk_index", pa.uint32()))
_REFS: Final = pa.list_(
    pa.field("item", pa.struct([pa.field(name, kind, nullable=False) for name, kind in _REF]))
)
_SCHEMA: Final = pa.schema(
    [
        pa.field("bundle_index", pa.uint32(), nullable=False),
        pa.field("slot_refs", _REFS, nullable=False),
        pa.field("wal_seq", pa.uint64(), nullable=False),
        pa.field("ingestion_ts", NANOSECONDS, nullable=False),
        pa.field("event_ts_min", NANOSECONDS),
        pa.field("event_ts_max", NANOSECONDS),
        pa.field("byte_count", pa.uint64()),
    ]
)
_COUNTS: Final = ("wal_seq", "byte_count", "item_count")
_TIMES: Final = ("ingestion_ts", "event_ts_min", "event_ts_max")

_KEPT: Final = 8
_KEPT_BYTES_MAX: Final = 1 << 18

Integers = npt.NDArray[np.int64]


class References(NamedTuple):
    """Chunks that fill slots of bundles, one in each row, in any order."""

    bundles: Integers
    slots: Integers
    streams: Integers
    chunks: Integers


class BundleColumns(NamedTuple):
    """What else there is to say of bundles, in order: Arrow arrays of one value for each."""

    wal_seq: Column
    ingestion_ns: Column
    event_ns_min: Column
    event_ns_max: Column
    byte_count: Column


def encode_manifest(references: References, columns: BundleColumns) -> pa.Buffer:
    """Write the manifest of as many bundles as ``columns`` have rows."""
    order = np.lexsort((references.slots, references.bundles))
    items = pa.StructArray.from_arrays(
        [
            pa.array(values[order].astype(dtype))
            for values, dtype in zip(references[1:], ("<u2", "<u4", "<u4"), strict=True)
        ],
        fields=list(_REFS.value_type),
    )
    count = len(columns.wal_seq)
    ends = np.cumsum(np.bincount(references.bundles + 1, minlength=count + 1))
    offsets: Any = pa.array(ends.astype(np.int32))
    arrays = [
        pa.array(np.arange(count, dtype=np.uint32)),
        pa.ListArray.from_arrays(offsets, items, type=_REFS),
        *(
            column.cast(field.type)
            for column, field in zip(columns, list(_SCHEMA)[2:], strict=True)
        ),
    ]
    return encode_file(_SCHEMA, [pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)])


class Manifests:
    """Manifests of small segments that were read last: each slot is scanned by itself, and often.

    They are known by their bytes and by the streams that they were checked against, which are the
    same ones as long as their directory is (``glance``). Safe for several threads at once.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, int], tuple[Sequence[StreamEntry], Manifest]] = {}

    def read(self, data: pa.Buffer, bundle_count: int, streams: Sequence[StreamEntry]) -> Manifest:
        """Read one as ``Manifest`` does, or give the one that was."""
        if data.size > _KEPT_BYTES_MAX:
            return Manifest(data, bundle_count, streams)
        copied = data.to_pybytes()
        key = copied, id(streams)  # Whose streams are kept with it: no others have their id.
        known = self._known.get(key)
        if known is not None and len(known[1]) == bundle_count:
            return known[1]
        manifest = Manifest(pa.py_buffer(copied), bundle_count, streams)
        while len(self._known) >= _KEPT:
            self._known.pop(next(iter(list(self._known))), None)
        self._known[key] = streams, manifest
        return manifest


class Manifest:
    """The bundles of one segment, kept as columns that view the file."""

    def __init__(self, data: pa.Buffer, bundle_count: int, streams: Sequence[StreamEntry]) -> None:
        """Read and check all rows; raises DamagedEntry that names the first wrong bundle.

        Each reference must name a chunk that exists, in a stream of that very slot, and no bundle
        may fill a slot twice.
        """
        batch = read_table(data, bundle_count, schema=_SCHEMA)
        self._offsets, self._slots, self._streams, self._chunks = _references(batch)
        index = integers(need_column(batch, "bundle_index", pa.uint32()))
        _refuse("is out of order", index != np.arange(bundle_count))
        self._check_references(streams)
        self._extras: Mapping[str, Column] = {
            **{name: find_column(batch, name, pa.uint64()) for name in _COUNTS},
            **{name: take_times(batch, name) for name in _TIMES},
        }

    def __len__(self) -> int:
        """How many bundles there are."""
        return len(self._offsets) - 1

    def entry(self, index: int) -> BundleEntry:
        """Make the entry of one bundle, ``0 <= index < len``."""
        extras = {name: self._extra(name, index) for name in (*_COUNTS, *_TIMES)}
        return BundleEntry(
            index,
            self.refs(index),
            wal_seq=extras["wal_seq"],
            ingestion_ns=extras["ingestion_ts"],
            event_ns_min=extras["event_ts_min"],
            event_ns_max=extras["event_ts_max"],
            byte_count=extras["byte_count"],
            item_count=extras["item_count"],
        )

    def refs(self, index: int) -> tuple[SlotRef, ...]:
        """Give the references of one bundle in the order of the file."""
        where = slice(int(self._offsets[index]), int(self._offsets[index + 1]))
        columns = (self._slots[where], self._streams[where], self._chunks[where])
        return tuple(SlotRef(*ref) for ref in zip(*(c.tolist() for c in columns), strict=True))

    def chunks_of(self, slot_id: int) -> tuple[Integers, Integers, Integers]:
        """List what fills a slot, in order of bundles: bundle index, stream id, chunk index."""
        wanted = self._slots == slot_id
        owners = np.repeat(np.arange(len(self)), np.diff(self._offsets))
        return owners[wanted], self._streams[wanted], self._chunks[wanted]

    def ingestion_ns(self) -> Integers | None:
        """Give when each bundle was appended, nanoseconds since 1970; None if nothing says."""
        column = self._extras["ingestion_ts"]
        return None if column is None or column.null_count else integers(column)

    def references(self) -> References:
        """Give all references, in order of bundles."""
        owners = np.repeat(np.arange(len(self)), np.diff(self._offsets))
        return References(owners, self._slots, self._streams, self._chunks)

    def columns(self) -> BundleColumns:
        """Give what else there is to say of bundles; of one of ours, no column is None."""
        extras = self._extras
        return BundleColumns(
            extras["wal_seq"],
            extras["ingestion_ts"],
            extras["event_ts_min"],
            extras["event_ts_max"],
            extras["byte_count"],
        )

    def wal_seq_range(self) -> tuple[int, int] | None:
        """Find the least and the greatest log sequence; None if the file has none."""
        column = self._extras["wal_seq"]
        both: Any = None if column is None else pc.min_max(column)
        if both is None or both["min"].as_py() is None:
            return None
        return both["min"].as_py(), both["max"].as_py()

    def _extra(self, name: str, index: int) -> int | None:
        column = self._extras[name]
        return None if column is None else cast("int | None", column[index].as_py())

    def _check_references(self, streams: Sequence[StreamEntry]) -> None:
        counts = np.diff(self._offsets)
        _refuse(f"fills more than {SLOTS_MAX} slots", counts > SLOTS_MAX)
        owners = np.repeat(np.arange(len(counts)), counts)
        _refuse("has an impossible slot", self._slots >= SLOTS_MAX, owners)
        ordered = sorted(streams, key=lambda stream: stream.stream_id)
        known = np.array([stream.stream_id for stream in ordered], np.int64)
        places = np.searchsorted(known, self._streams)
        missing = places == len(known)
        places[missing] = 0
        missing |= known[places] != self._streams if len(known) else missing
        _refuse("is filled from a stream that does not exist", missing, owners)
        if not len(known):
            return
        chunk_counts = np.array([stream.chunk_count for stream in ordered], np.int64)
        stream_slots = np.array([stream.slot_id for stream in ordered], np.int64)
        _refuse(
            "needs a chunk that its stream has not", self._chunks >= chunk_counts[places], owners
        )
        _refuse("takes a chunk of another slot", self._slots != stream_slots[places], owners)
        filled = np.sort(owners * SLOTS_MAX + self._slots)
        twice = filled[1:] == filled[:-1]
        _refuse("fills a slot twice", twice, filled[1:] // SLOTS_MAX)


def _references(batch: pa.RecordBatch) -> tuple[Integers, Integers, Integers, Integers]:
    lists = need_column(batch, "slot_refs", None)
    kind = lists.type
    if not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type):
        raise DamagedEntry(
            "column 'slot_refs' is of another type", expected=str(_REFS), found=str(kind)
        )
    items = lists.flatten()
    if items.null_count:
        raise DamagedEntry("column 'slot_refs' has nulls", expected=0, found=items.null_count)
    inner = pa.RecordBatch.from_struct_array(items)
    slots, streams, chunks = (
        integers(need_column(inner, name, column_kind)) for name, column_kind in _REF
    )
    offsets = integers(lists.offsets)
    return offsets - offsets[0], slots, streams, chunks


def _refuse(what: str, wrong: npt.NDArray[np.bool_], owners: Integers | None = None) -> None:
    if wrong.any():
        place = int(np.argmax(wrong))
        raise DamagedEntry(f"bundle {place if owners is None else int(owners[place])} {what}")
