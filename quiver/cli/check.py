"""``quiver check``: read everything, change nothing, and say what is damaged as it is found."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from itertools import chain
from typing import TYPE_CHECKING

import click

from quiver.cli.exits import FOUND, OK, VERSION
from quiver.cli.output import Output, count
from quiver.cli.program import verb
from quiver.errors import DamageError
from quiver.units import format_bytes

if TYPE_CHECKING:
    from quiver.cli.audit import Finding

__all__ = ["check", "show_finding"]


@verb(
    "check",
    examples=(
        ("quiver check store", "findings, then OK or their number"),
        ("quiver check store && echo sound", "exit code 1 if anything is damaged"),
        ("quiver check store --json | jq 'select(.kind == \"damage\")'", "for programs"),
    ),
)
@click.argument("folder", metavar="DIR")
def check(output: Output, *, folder: str) -> int:
    """Look for damage in a store, and change nothing.

    Reads every byte: manifest, WAL, segments, ack.log and its checkpoint, and what sinks have in.
    Takes no lock and writes nothing, so a store that is being written may be checked. What recovery
    deals with by itself, such as the unfinished end of a WAL after a crash, is a note and no
    damage. Files of a newer format, or of another slot table, are named and not looked into; the
    exit code is 5 then.
    """
    from quiver.cli.audit import audit, audited_bytes
    from quiver.cli.followed import lost_progress
    from quiver.cli.inspect import open_folder
    from quiver.cli.sinks import audit_sinks

    disk = open_folder(folder)
    kinds: Counter[str] = Counter()
    total = audited_bytes(disk)
    with output.progress("checking", total, unit="B") as advance:
        for finding in chain(audit(disk, advance), audit_sinks(disk), lost_progress(disk)):
            kinds[finding.kind] += 1
            if output.as_json:
                output.line(asdict(finding))
            else:
                show_finding(output, finding)
    damage, versions, notes = kinds["damage"], kinds["version"], kinds["note"]
    if output.as_json:
        output.line(
            {
                "kind": "summary",
                "path": disk.root,
                "checked_bytes": total,
                "damage_count": damage,
                "version_count": versions,
                "note_count": notes,
            }
        )
    elif damage or versions:
        parts = [count(damage, "damaged item")] if damage else []
        parts += [f"{count(versions, 'file')} of another version"] if versions else []
        output.text(f"{', '.join(parts)} in {disk.root}", style="red")
    else:
        aside = f", {count(notes, 'note')}" if notes else ""
        output.text(f"OK: {format_bytes(total)} checked in {disk.root}{aside}", style="green")
    return FOUND if damage else VERSION if versions else OK


def show_finding(output: Output, finding: Finding) -> None:
    """Write one finding for people."""
    text = f"{finding.kind:7} {finding.path}"
    if finding.offset is not None:
        text += f" at byte {finding.offset:,}"
    text += f": {finding.message}"
    text += DamageError.comparison(finding.expected, finding.found)
    output.text(text, style="yellow" if finding.kind == "note" else "red")
    output.flush()
