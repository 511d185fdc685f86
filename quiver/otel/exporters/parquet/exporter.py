"""Parquet: one table for each payload type, a folder for each day, each row once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from quiver.bundle import RecordBundle
from quiver.casts import CAST_FAULTS, conform
from quiver.clock import Clock
from quiver.errors import InputError
from quiver.otel.batch import Batch
from quiver.otel.exporters.parquet.days import by_day, day_name, day_of
from quiver.otel.exporters.parquet.folder import Codec, LakeFolder
from quiver.otel.exporters.parquet.names import At
from quiver.otel.exporters.parquet.plain import plain_batch, readable, try_schema, with_place
from quiver.otel.nodes import Accepted, Delivered, Gather, Outcome, Place, Refused
from quiver.otel.signals import OTLP_SLOTS, TELEMETRY
from quiver.promote import union_schema

if TYPE_CHECKING:
    from quiver.disk import Disk

__all__ = ["Codec", "ParquetExporter"]

_TABLES: Final = frozenset({slot.name for slot in TELEMETRY} - set(OTLP_SLOTS.values()))
_BATCHES_MAX: Final = 1 << 16
"""Bundles of a file, whatever their items: each one is held until it is acked."""


@dataclass(slots=True)
class _Pieces:
    """What comes into one file."""

    schema: pa.Schema
    batches: list[pa.RecordBatch] = field(default_factory=list)
    places: set[At] = field(default_factory=set)


class ParquetExporter:
    """Writes files of about so many items each; for one thread.

    A batch that comes again, as it does when a process was killed between a file and its ack, is
    left out of each table that has it, so every row is there once.
    """

    def __init__(
        self,
        disk: Disk,
        *,
        owner: Mapping[str, str],
        core: int,
        clock: Clock,
        to_arrow: Callable[[Batch], Sequence[Batch]],
        items: int = 200_000,
        seconds: float = 60.0,
        compression: Codec = "zstd",
    ) -> None:
        """Have a folder for one core of one store; ``owner`` tells that store and this exporter.

        ``to_arrow`` makes payloads of OTAP of a batch of OTLP, the same ones each time. Raises
        LockedError, InputError.
        """
        self._clock = clock
        self._to_arrow = to_arrow
        self._compression = compression
        self._gather = Gather(_BATCHES_MAX, items, seconds, needs_place=True)
        self._folder = LakeFolder(disk, owner=owner, core=core)
        self._life = clock.wall_ns()
        self._count = 0
        self._tried: dict[str, pa.Schema] = {}

    @property
    def gather(self) -> Gather:
        """As many items as a file is to have, or what came in so many seconds."""
        return self._gather

    def export(self, delivered: Sequence[Delivered]) -> Sequence[Outcome]:
        """Write all, durably; what the disk refuses is raised, and may be tried again."""
        try:
            try:
                return self._export(delivered)
            except CAST_FAULTS:
                self._folder.forget()
                if len(delivered) == 1:
                    return [Refused("Parquet cannot hold it")]
                return [outcome for each in delivered for outcome in self.export([each])]
        except BaseException:
            self._folder.forget()
            raise

    def _export(self, delivered: Sequence[Delivered]) -> Sequence[Outcome]:
        files: dict[tuple[str, str], _Pieces] = {}
        outcomes = [self._sort(each, files) for each in delivered]
        self._write(files)
        return outcomes

    def _write(self, files: Mapping[tuple[str, str], _Pieces]) -> None:
        for slot in sorted({slot for slot, _ in files}):
            wide = union_schema(
                [
                    *([] if (known := self._folder.schema(slot)) is None else [known]),
                    *(pieces.schema for (name, _), pieces in files.items() if name == slot),
                ]
            )
            if known is None or not wide.equals(known):
                self._folder.widen(slot, wide)
        for (slot, day), pieces in sorted(files.items()):
            schema = self._folder.schema(slot) or pieces.schema
            table = pa.Table.from_batches([conform(each, schema) for each in pieces.batches])
            self._folder.write(
                slot, day, list(pieces.places), table=table, compression=self._compression
            )
        for (slot, day), pieces in sorted(files.items()):
            self._folder.settle(slot, day, list(pieces.places))

    def _sort(self, each: Delivered, files: dict[tuple[str, str], _Pieces]) -> Outcome:
        """Put the rows of a batch to those of the same table and day; all of them, or none."""
        place, moment = each.place, each.ingestion_ns or 0
        if place is None:
            place, moment = self._own_place(), self._clock.wall_ns()
        at = place.segment_seq, place.bundle_index
        if place.core != self._folder.core:
            return Refused(f"it is of core {place.core}, not {self._folder.core}")
        found: list[tuple[tuple[str, str], pa.RecordBatch]] = []
        wide: dict[tuple[str, str], pa.Schema] = {}
        try:
            for part, batch in enumerate(self._to_arrow(each.batch)):
                for day, tables in by_day(_plain(batch), day_of(moment)):
                    for slot, rows in tables.items():
                        if slot not in _TABLES:
                            raise InputError(f"slot {slot!r} is no payload of {batch.signal}")
                        key = slot, day_name(day)
                        if rows.num_rows and not self._folder.has(*key, at):
                            piece = with_place(readable(rows), place, part)
                            found.append((key, piece))
                            near = [each for (other, _), each in wide.items() if other == slot]
                            near += [p.schema for (other, _), p in files.items() if other == slot]
                            wide[key] = self._widened(slot, near, piece.schema)
        except (InputError, *CAST_FAULTS) as error:
            return Refused(f"no table can hold it: {error}")
        for key, piece in found:
            pieces = files.setdefault(key, _Pieces(wide[key]))
            pieces.batches.append(piece)
            pieces.places.add(at)
            pieces.schema = wide[key]
        return Accepted()

    def _widened(self, slot: str, near: list[Any], schema: pa.Schema) -> pa.Schema:
        """Find the schema that all rows of a table have in common, as they come."""
        known = self._folder.schema(slot)
        wide = union_schema([*([] if known is None else [known]), *near, schema])
        tried = self._tried.get(slot, known)
        if tried is None or not wide.equals(tried):
            try_schema(wide)  # One that no file can have would be that of the table for ever.
            self._tried[slot] = wide
        return wide

    def _own_place(self) -> Place:
        """Give a place of its own to a batch that no store has."""
        self._count += 1
        return Place(self._folder.core, self._life, self._count)

    def close(self) -> None:
        """Let others export to the folder."""
        self._folder.close()


def _plain(batch: Batch) -> Batch:
    rows = {slot: plain_batch(each) for slot, each in batch.bundle.items()}
    return Batch(batch.signal, RecordBundle(rows))
