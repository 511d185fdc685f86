"""``quiver repair``: what ``check`` finds goes to quarantine, all else stays; rehearsed first."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from quiver.cli.check import show_finding
from quiver.cli.exits import FOUND, OK
from quiver.cli.opening import hold_store, recovery_bar
from quiver.cli.output import Output, count
from quiver.cli.program import verb
from quiver.errors import VersionError
from quiver.units import format_bytes

if TYPE_CHECKING:
    from quiver.cli.audit import Finding
    from quiver.cli.losses import Loss
    from quiver.cli.remedy import Fate, Remedy
    from quiver.disk import Disk

__all__ = ["repair"]


@verb(
    "repair",
    examples=(
        ("quiver repair store", "what it would do, and exactly what would be lost"),
        ("quiver repair store --apply", "copies to store.before-repair-1, then the repair"),
        ("quiver repair store --json | jq 'select(.what)'", "what is lost, for programs"),
    ),
)
@click.argument("folder", metavar="DIR")
@click.option("--apply", "is_applied", is_flag=True, help="Repair; without it nothing is changed.")
@click.option(
    "--backup",
    metavar="FOLDER",
    help="Where --apply copies files to before it changes them; a new folder beside the store.",
)
def repair(output: Output, *, folder: str, is_applied: bool, backup: str | None) -> int:
    """Make a damaged store sound.

    Rehearses the repair on a copy of what it would change, kept out of the store, and says what
    becomes of each thing that check finds and exactly what is lost. With --apply it then copies the
    files that it is going to change, and repairs. Damaged bytes are in quarantine afterwards; check
    finds nothing any more, or repair says what remains.

    Nobody may be writing the store. The exit code is 1 as long as something is damaged.
    """
    from quiver.cli.inspect import open_folder
    from quiver.cli.remedy import copy_files, look
    from quiver.disk import OverlayDisk

    local = open_folder(folder)
    with hold_store(local, writing=is_applied) as disk:
        with _checking(output, disk) as advance:
            damage, versions = look(disk, advance)
        if versions or not damage:
            return _nothing_to_do(output, local.root, versions)
        with closing(OverlayDisk(disk)) as overlay:
            remedy = _treat(output, overlay, damage, changed=overlay.changes)
            changes = overlay.changes()
        copies = _Copies(tuple(path for path, change in changes.items() if change != "made"))
        copies.file_bytes = sum(found.size for path in copies.paths if (found := disk.stat(path)))
        if is_applied and remedy.fates:
            copies.folder = _place(local.root, backup)
            copy_files(disk, copies.paths, copies.folder)
            try:
                remedy = _treat(output, disk, damage, changed=lambda: changes)
            except BaseException:
                output.warn(f"quiver: copies of what it was to change are in {copies.folder}")
                raise
    _show(output, _Report(local.root, damage, remedy, copies))
    return FOUND if remedy.remains or copies.folder is None else OK


@dataclass(slots=True)
class _Copies:
    """The files that a repair changes or removes, and where they were copied to, if they were."""

    paths: tuple[str, ...]
    file_bytes: int = 0
    folder: str | None = None


@dataclass(frozen=True, slots=True)
class _Report:
    """What there is to say."""

    root: str
    damage: Sequence[Finding]
    remedy: Remedy | None
    copies: _Copies

    @property
    def losses(self) -> Sequence[Loss]:
        return self.remedy.losses if self.remedy else ()


@contextmanager
def _checking(output: Output, disk: Disk) -> Iterator[Callable[[int], None]]:
    from quiver.cli.audit import audited_bytes

    with output.progress("checking", audited_bytes(disk), unit="B") as advance:
        yield advance


def _treat(
    output: Output,
    disk: Disk,
    damage: Sequence[Finding],
    *,
    changed: Callable[[], Mapping[str, object]],
) -> Remedy:
    from quiver.cli.remedy import treat

    with recovery_bar(output) as watch:
        return treat(disk, damage, changed, watch=watch)


def _place(root: str, backup: str | None) -> str:
    """Choose the folder for copies: the one that was named, or the first that is not there."""
    if backup is not None:
        return os.path.abspath(backup)
    places = (f"{root}.before-repair-{number}" for number in itertools.count(1))
    return next(place for place in places if not os.path.lexists(place))


def _nothing_to_do(output: Output, root: str, versions: Sequence[Finding]) -> int:
    """Say that nothing is damaged, or that something is in the way."""
    for finding in versions:
        raise VersionError(
            f"{finding.path}: {finding.message}",
            hint=finding.hint or "nothing was changed: what it cannot read it does not repair",
        )
    if output.as_json:
        output.line(_summary(_Report(root, [], None, _Copies(()))))
    else:
        output.text(f"OK: nothing is damaged in {root}", style="green")
    return OK


# what was found and done -----------------------------------------------------------------------


def _show(output: Output, report: _Report) -> None:
    if report.remedy is None:
        return
    remedy = report.remedy
    fates = remedy.fates or (None,) * len(report.damage)
    for finding, fate in zip(report.damage, fates, strict=True):
        if output.as_json:
            copied = fate.quarantine if fate else ()
            outcome = {"quarantine": copied, "file_state": fate.file if fate else "kept"}
            output.line({**asdict(finding), **outcome})
        else:
            show_finding(output, finding)
            output.text(f"        {_describe(fate)}" if fate else "        nothing can mend it")
    for loss in remedy.losses:
        name = "" if loss.slot_id is None else remedy.slots.get(loss.slot_id, str(loss.slot_id))
        if output.as_json:
            output.line(_fields(loss, name or None))
        else:
            output.text(f"lost    {loss.describe(name)}", style="red")
    for finding in remedy.remains:
        if output.as_json:
            output.line({**asdict(finding), "kind": "remains"})
        elif remedy.fates:
            show_finding(output, replace(finding, kind="remains"))
    if output.as_json:
        output.line(_summary(report))
    else:
        _conclude(output, report, remedy)


def _describe(fate: Fate) -> str:
    kept = f"set aside as {', '.join(fate.quarantine)}; " if fate.quarantine else ""
    return (
        kept
        + {
            "removed": "the file goes",
            "rewritten": "the file is written anew",
            "kept": "the file stays as it is",
        }[fate.file]
    )


def _fields(loss: Loss, slot: str | None) -> dict[str, Any]:
    return {
        "kind": "lost",
        "what": loss.what,
        "core": loss.core,
        "path": loss.path,
        "wal_seq_ranges": loss.ranges,
        "bundle_count": loss.bundle_count if loss.ranges else None,
        "slot": slot,
        "row_count": loss.row_count,
        "record_count": loss.record_count,
        "byte_count": loss.byte_count,
        "is_exact": loss.is_exact,
    }


def _summary(report: _Report) -> dict[str, Any]:
    from quiver.cli.losses import count_lost_bundles

    losses, copies = report.losses, report.copies
    return {
        "kind": "summary",
        "path": report.root,
        "is_applied": copies.folder is not None,
        "damage_count": len(report.damage),
        "remaining_count": len(report.remedy.remains) if report.remedy else 0,
        "lost_bundle_count": count_lost_bundles(losses),
        "lost_record_count": sum(loss.record_count or 0 for loss in losses),
        "is_exact": all(_is_exact(loss) for loss in losses),
        "changed_file_count": len(copies.paths),
        "changed_bytes": copies.file_bytes,
        "backup_path": copies.folder,
    }


def _is_exact(loss: Loss) -> bool:
    return loss.is_exact and (loss.what != "records" or loss.record_count is not None)


def _conclude(output: Output, report: _Report, remedy: Remedy) -> None:
    """Say in two lines what it comes to."""
    items = f"{count(len(report.damage), 'damaged item')} in {report.root}"
    copies = report.copies
    files = f"{count(len(copies.paths), 'file')} ({format_bytes(copies.file_bytes)})"
    if not remedy.fates:
        output.text(f"{items}: nothing was changed", style="red")
    elif copies.folder is None:
        output.text(f"{items}; a repair loses {_sum_up(remedy.losses)}", style="yellow")
        output.text(f"nothing was changed: --apply copies {files} first, then repairs")
    else:
        left = f", {len(remedy.remains):,} left as they are" if remedy.remains else ""
        color = "yellow" if remedy.remains else "green"
        output.text(f"repaired {items}{left}; lost {_sum_up(remedy.losses)}", style=color)
        output.text(f"copies of {files} as they were: {copies.folder}")


def _sum_up(losses: Sequence[Loss]) -> str:
    from quiver.cli.losses import count_lost_bundles

    bundles = count_lost_bundles(losses)
    parts = [count(bundles, "bundle")] if bundles else []
    records = [loss.record_count for loss in losses if loss.what == "records"]
    if None in records:
        parts.append("records of subscribers")
    elif records:
        parts.append(count(sum(number or 0 for number in records), "record"))
    if any(loss.what != "records" and not loss.ranges for loss in losses):
        parts.append("what was in no segment yet")
    most = "" if all(loss.is_exact for loss in losses) else "at most "
    return most + (" and ".join(parts) or "nothing")
