"""What a store knows of the sources that it follows, and that it knows of them no more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from quiver.cli.audit import Finding
from quiver.cli.inspect import core_numbers
from quiver.disk import Disk
from quiver.engine.core import core_folder
from quiver.engine.progress_beside import Known, read_core
from quiver.errors import DamageError
from quiver.manifest import StoreManifest
from quiver.progress import LOST_NAME, Loss, Table, read_loss

__all__ = ["followed", "lost_progress", "source_fields", "source_items"]


def followed(disk: Disk) -> Known:
    """Add up what all cores know; what is damaged is a loss here as well."""
    manifest = StoreManifest.read(disk)
    found = Known(Table(), [])
    for core in core_numbers(disk):
        try:
            known = read_core(disk, core, manifest)
        except DamageError as error:
            found.losses.append(Loss("", error.path, error.message))
            continue
        found.table.take_all(known.table.notes())
        found.losses.extend(known.losses)
    return found


def source_items(disk: Disk) -> Iterator[dict[str, Any]]:
    """Give each split of each source, and how far it was read."""
    table = followed(disk).table
    for source in table.sources():
        for split, row in sorted(table.rows(source).items()):
            if row.state is not None:
                yield {
                    "source": source,
                    "split": split,
                    "epoch": row.epoch,
                    "wal_seq": row.wal_seq,
                    "state": row.state,
                }


def source_fields(disk: Disk) -> dict[str, int]:
    """Count sources, their splits, and cores that lost what they knew."""
    table, losses = followed(disk)
    sources = table.sources()
    return {
        "source_count": len(sources),
        "split_count": sum(len(table.states(source)) for source in sources),
        "loss_count": len(losses),
    }


def lost_progress(disk: Disk) -> Iterator[Finding]:
    """Say in which cores it is lost how far sources were read."""
    for core in core_numbers(disk):
        path = f"{core_folder(core)}/{LOST_NAME}"
        loss = read_loss(disk, path)
        if loss is not None:
            text = f"how far sources were read is lost, of {loss.path}: {loss.reason}; "
            text += "who follows one says whether to begin anew"
            yield Finding("note", "progress", disk.locate(path), text)
