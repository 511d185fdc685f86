"""``quiver dump``: one file of a store, header and items."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import islice
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, Final

import click

from quiver.cli.exits import DAMAGED, OK
from quiver.cli.output import Output, printable
from quiver.cli.program import verb

if TYPE_CHECKING:
    from quiver.cli.dissect import Item

__all__ = ["dump"]

_KINDS: Final = ("wal", "sidecar", "segment", "acks", "checkpoint", "manifest")
_SHORT: Final = {"fingerprint": 8}
"""How many characters of a long value a person is shown; JSON has all of it."""

_DULL: Final = (("lease", 0), ("reason", 0))


@verb(
    "dump",
    examples=(
        ("quiver dump store/core_0/wal/quiver.wal", "each entry with its offset"),
        ("quiver dump store/core_0/acks/ack.log --limit 20", "the first records"),
        ("quiver dump store/core_0/segments/*42.qseg --json", "a line of JSON for each item"),
    ),
)
@click.argument("path", metavar="FILE")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Stop after N items.")
@click.option("--as", "kind", type=click.Choice(_KINDS), help="Take it for a file of this kind.")
def dump(output: Output, *, path: str, limit: int | None, kind: str | None) -> int:
    """Show what is in one file of a store.

    WAL, truncate sidecar, segment, ack.log, its checkpoint, quiver.json: which of them it is, the
    bytes tell and not the name. Damaged items are shown as such and the walk goes on; the exit code
    is 9 then.
    """
    from quiver.cli.dissect import dissect, recognize
    from quiver.disk import LocalDisk

    folder, name = os.path.split(os.path.abspath(path))
    disk = LocalDisk(folder)
    kind = kind or recognize(disk, name)
    if not output.as_json:
        output.text(f"{kind} {disk.locate(name)}", style="cyan")
    code = OK
    for item in islice(dissect(disk, name, kind), limit):
        if item.kind == "damage":
            code = DAMAGED
        if output.as_json:
            place = {"offset": item.offset, "byte_count": item.byte_count}
            output.line({"file_kind": kind, "kind": item.kind, **place, **item.fields})
        else:
            style = {"damage": "red", "torn": "yellow"}.get(item.kind, "")
            output.lines(_lines(item), style=style)
    return code


def _lines(item: Item) -> str:
    """Lay an item out: on a terminal its fields are folded under its first one."""
    head = f"{item.offset:>12,}  {item.kind:10}  "
    if item.kind in ("damage", "torn"):
        parts = [str(item.fields["message"])]
        if item.fields["expected"] is not None or item.fields["found"] is not None:
            parts[0] += f": expected {item.fields['expected']}, found {item.fields['found']}"
    else:
        parts = list(_pairs(item.fields))
    room = get_terminal_size().columns - len(head) if sys.stdout.isatty() else sys.maxsize
    lines = [""]
    for part in parts:
        joined = f"{lines[-1]}  {part}" if lines[-1] else part
        if len(joined) > room and lines[-1]:
            lines.append(part)
        else:
            lines[-1] = joined
    return head + f"\n{' ' * len(head)}".join(printable(line) for line in lines)


def _pairs(fields: dict[str, Any]) -> Iterator[str]:
    """Write fields as ``name value``, without those that say nothing."""
    for name, value in fields.items():
        if value is None or value in ("", [], ()) or (name, value) in _DULL:
            continue
        if isinstance(value, (list, tuple)):
            inner = (" ".join(_pairs(one)) if isinstance(one, dict) else str(one) for one in value)
            yield f"{name} [{', '.join(inner)}]"
        elif isinstance(value, bytes):
            yield f"{name} {value.hex()}"
        elif isinstance(value, str):
            yield f"{name} {value[: _SHORT.get(name)]}"
        else:
            yield f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}"
