"""What a store knows of the sources that it follows, and that it knows of them no more."""

from __future__ import annotations

from collections.abc import Iterator

from quiver.cli.audit import Finding
from quiver.cli.inspect import core_numbers
from quiver.disk import Disk
from quiver.engine.core import core_folder
from quiver.progress import LOST_NAME, read_loss

__all__ = ["lost_progress"]


def lost_progress(disk: Disk) -> Iterator[Finding]:
    """Say in which cores it is lost how far sources were read."""
    for core in core_numbers(disk):
        path = f"{core_folder(core)}/{LOST_NAME}"
        loss = read_loss(disk, path)
        if loss is not None:
            text = f"how far sources were read is lost, of {loss.path}: {loss.reason}; "
            text += "who follows one says whether to begin anew"
            yield Finding("note", "progress", disk.locate(path), text)
