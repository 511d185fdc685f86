"""``quiver gc``: what a store does for its subscribers, for a store that nobody has open."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from quiver.cli.opening import config_options, recovery_bar, settings
from quiver.cli.output import Output, count
from quiver.cli.program import verb
from quiver.errors import LockedError
from quiver.units import format_bytes

if TYPE_CHECKING:
    from quiver.disk import Disk

__all__ = ["gc"]

_COUNTS = (
    *("folded_bundle_count", "deleted_segment_count", "deleted_bytes"),
    *("segment_count", "segment_bytes"),
)


@verb(
    "gc",
    examples=(
        ("quiver gc store", "where nobody has the store open"),
        ("quiver gc store --json | jq '.cores[].deleted_bytes'", "for programs"),
    ),
)
@click.argument("folder", metavar="DIR")
@config_options
def gc(output: Output, *, folder: str) -> None:
    """Adopt cores that nobody writes, and delete what all have.

    Subscribers in processes of their own leave what they did in the store's folder. Whoever has the
    store open takes that over and deletes segments that every subscriber is done with; where nobody
    has, this does. A core that another process writes is left alone: it does the same by itself.
    What was in the log becomes a segment, as with every opening. What tasks have staged for a sink,
    and nobody has committed for a day, is deleted.
    """
    from quiver.cli.inspect import core_numbers, open_folder
    from quiver.clock import SystemClock
    from quiver.manifest import StoreManifest
    from quiver.sink import tidy

    with closing(open_folder(folder)) as disk:
        store_id = StoreManifest.read(disk).store_id
        cores = [_collect(output, disk, core, store_id=store_id) for core in core_numbers(disk)]
        staged = tidy(disk, clock=SystemClock())
    if output.as_json:
        output.document({"path": disk.root, "cores": cores, "staging": asdict(staged)})
        return
    for core in cores:
        name = f"core {core['core']}: " if len(cores) > 1 else ""
        output.text(f"{name}{_told(core)}")
    if staged.removed_count:
        text = f"{count(staged.removed_count, 'file')}, {format_bytes(staged.removed_bytes)}"
        output.text(f"staging: {text}, of jobs that are dead for a day, deleted")


def _collect(output: Output, disk: Disk, core: int, *, store_id: str) -> dict[str, Any]:
    """Do it for one core; opening it folds in, so what there was is looked up before that."""
    from quiver.cli.inspect import load_segments
    from quiver.cli.standing import read_core
    from quiver.clock import SystemClock
    from quiver.config_file import config_of
    from quiver.engine.adoption import adopt_core

    standings = read_core(disk, core, store_id=store_id, warn=output.warn)
    folded, before = standings.unfolded_count, standings.catalog
    try:
        config = config_of(settings(output))
        with recovery_bar(output) as watch:
            adopted = adopt_core(disk, core, config=config, clock=SystemClock(), watch=watch)
    except LockedError as error:
        return {"core": core, "writer_pid": error.pid, **dict.fromkeys(_COUNTS)}
    for damage in adopted.recovery.damage:
        output.warn(f"quiver: set aside while opening: {damage}")
    after = load_segments(disk, core)[0]
    gone = [info for info in before if info.segment_seq not in after]
    return {
        "core": core,
        "writer_pid": None,
        "folded_bundle_count": folded,
        "deleted_segment_count": len(gone),
        "deleted_bytes": sum(info.file_bytes for info in gone),
        "segment_count": len(after),
        "segment_bytes": after.segment_bytes,
    }


def _told(core: dict[str, Any]) -> str:
    if core["writer_pid"] is not None:
        who = f"process {core['writer_pid']}" if core["writer_pid"] else "another process"
        return f"left alone: {who} writes it, and does this by itself"
    text = f"{count(core['folded_bundle_count'], 'bundle')} taken over from subscribers, "
    text += f"{count(core['deleted_segment_count'], 'segment')} deleted"
    if core["deleted_segment_count"]:
        text += f" ({format_bytes(core['deleted_bytes'])})"
    left = f"{count(core['segment_count'], 'segment')}, {format_bytes(core['segment_bytes'])}"
    return f"{text}; {left} left"
