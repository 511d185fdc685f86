"""``quiver check``: read everything, change nothing, and say what is damaged as it is found."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from quiver.cli.exits import FOUND, OK
from quiver.cli.output import Output, count
from quiver.cli.program import verb
from quiver.units import format_bytes

if TYPE_CHECKING:
    from quiver.cli.audit import Finding

__all__ = ["check"]


@verb(
    "check",
    examples=(
        ("quiver check store", "findings as they come, then OK or their number"),
        ("quiver check store && echo sound", "exit code 1 if anything is damaged"),
        ("quiver check store --json | jq 'select(.kind == \"damage\")'", "for programs"),
    ),
)
@click.argument("folder", metavar="DIR")
def check(output: Output, *, folder: str) -> int:
    """Look for damage in a store, and change nothing.

    Reads every byte: manifest, WAL, segments, ack.log and its checkpoint. Takes no lock and writes
    nothing, so a store that is being written may be checked. What recovery deals with by itself,
    such as the unfinished end of a WAL after a crash, is a note and no damage.
    """
    from quiver.cli.audit import audit, audited_bytes
    from quiver.cli.inspect import open_folder

    disk = open_folder(folder)
    kinds: Counter[str] = Counter()
    total = audited_bytes(disk)
    with output.progress("checking", total, unit="B") as advance:
        for finding in audit(disk, advance):
            kinds[finding.kind] += 1
            _show(output, finding)
    damage, notes = kinds["damage"], kinds["note"]
    if output.as_json:
        output.line(
            {
                "kind": "summary",
                "path": disk.root,
                "checked_bytes": total,
                "damage_count": damage,
                "note_count": notes,
            }
        )
    elif damage:
        output.text(f"{count(damage, 'damaged item')} in {disk.root}", style="red")
    else:
        aside = f", {count(notes, 'note')}" if notes else ""
        output.text(f"OK: {format_bytes(total)} checked in {disk.root}{aside}", style="green")
    return FOUND if damage else OK


def _show(output: Output, finding: Finding) -> None:
    if output.as_json:
        output.line(asdict(finding))
        return
    text = f"{finding.kind:6}  {finding.path}"
    if finding.offset is not None:
        text += f" at byte {finding.offset:,}"
    text += f": {finding.message}"
    if finding.expected is not None or finding.found is not None:
        text += f": expected {finding.expected}, found {finding.found}"
    output.text(text, style="red" if finding.kind == "damage" else "yellow")
    output.flush()
