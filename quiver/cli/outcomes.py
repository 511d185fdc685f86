"""How far a subscriber is, as reports tell it, and whether that can be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from quiver.acks.letterbox import INBOX_FOLDER, list_inbox, read_inbox
from quiver.cli.output import format_time
from quiver.disk import Disk
from quiver.engine.beside import AcksState
from quiver.engine.core import core_folder
from quiver.errors import (
    DamagedEntry,
    DamageError,
    MissingError,
    StorageError,
    VersionError,
)
from quiver.segment import Catalog

__all__ = ["inbox_faults", "mark_faults", "subscriber_fields"]


def subscriber_fields(acks: AcksState, catalog: Catalog, name: str) -> dict[str, Any]:
    """Say how far a subscriber is, under the names that reports use."""
    progress = acks.registry.progress(name)
    floor = progress.floor
    oldest = catalog.get(floor).ingestion_ns_min if floor in catalog and progress.lag else None
    nacked = next(len(s.nacks) for s in acks.registry.snapshot() if s.name == name)
    return {
        "name": name,
        "subscriber_id": acks.registry.ids[name],
        "high_water_segment_seq": progress.high_water_mark,
        "lag_bundle_count": progress.lag,
        "gap_count": sum(1 for _ in progress.gaps()),
        "nacked_bundle_count": nacked,
        "oldest_open_time": format_time(oldest),
    }


def mark_faults(acks: AcksState, catalog: Catalog) -> Iterator[DamagedEntry]:
    """Hold what a checkpoint says of subscribers against the records and the segments there are."""
    newest = catalog.newest_seq
    above = max(acks.floor.next_segment_seq, -1 if newest is None else newest + 1)
    for state in acks.checkpoint.subscribers if acks.checkpoint else ():
        if state.floor_segment_seq > above:
            yield DamagedEntry(
                f"subscriber {state.name!r} has finished segments that never were",
                expected=f"segments below {above}",
                found=f"all below {state.floor_segment_seq}",
            )
        for segment in state.segments:
            known = catalog.get(segment.segment_seq) if segment.segment_seq in catalog else None
            if known is not None and known.bundle_count != segment.bundle_count:
                yield DamagedEntry(
                    f"what subscriber {state.name!r} has of segment {segment.segment_seq} is of "
                    "another one",
                    expected=f"{known.bundle_count} bundles",
                    found=segment.bundle_count,
                )


def inbox_faults(disk: Disk, core: int, store_id: str) -> Iterator[DamageError]:
    """Read every inbox, and give what the store would refuse of them."""
    folder = f"{core_folder(core)}/acks/{INBOX_FOLDER}"
    try:
        names = [stat.name for stat in list_inbox(disk, folder)]
    except StorageError as error:
        yield DamagedEntry(error.message, path=disk.locate(folder), hint=error.hint)
        return
    for name in names:
        try:
            read_inbox(disk, folder, name, store_id=store_id)
        except MissingError:
            continue  # Its subscriber went meanwhile.
        except DamageError as error:
            yield error
        except (StorageError, VersionError) as error:
            place = disk.locate(f"{folder}/{name}")
            yield DamagedEntry(error.message, path=place, hint=error.hint)
