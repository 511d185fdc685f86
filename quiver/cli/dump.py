"""``quiver dump``: one file of a store, header and items."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterator
from itertools import islice
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, Final

import click

from quiver.cli.exits import DAMAGED, OK
from quiver.cli.output import Output, printable
from quiver.cli.program import COUNT_MAX, verb
from quiver.errors import DamageError, InputError

if TYPE_CHECKING:
    from quiver.cli.dissect import Item

__all__ = ["dump"]

_KINDS: Final = ("wal", "sidecar", "segment", "acks", "checkpoint", "inbox", "manifest", "progress")
_SHORT: Final = {"fingerprint": 8}
"""How many characters of a long value a person is shown; JSON has all of it."""

_ROOM_MIN: Final = 40
_INDENT: Final = "    "

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
@click.option("--limit", type=click.IntRange(0, COUNT_MAX), metavar="N", help="Stop after N items.")
@click.option("--as", "kind", type=click.Choice(_KINDS), help="Take it for a file of this kind.")
def dump(output: Output, *, path: str, limit: int | None, kind: str | None) -> int:
    """Show what is in one file of a store.

    WAL, truncate sidecar, segment, ack.log, its checkpoint, an inbox, quiver.json, progress: which
    of them it is, the bytes tell and not the name. Damaged items are shown as such and the walk
    goes on; the exit code is 9 then.
    """
    from quiver.cli.dissect import dissect, recognize
    from quiver.disk import LocalDisk

    if os.path.isdir(path):
        raise InputError(
            f"{path} is a folder", hint="name one file in it; quiver ls says what a store has"
        )
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
        expected, found = item.fields["expected"], item.fields["found"]
        parts = [f"{item.fields['message']}{DamageError.comparison(expected, found)}"]
    else:
        parts = list(_pairs(item.fields))
    if not sys.stdout.isatty():
        return printable(head + "  ".join(parts))
    columns = get_terminal_size().columns
    if columns - len(head) >= _ROOM_MIN:
        return _fold(head, parts, columns, indent=len(head))
    return _fold(f"{head.rstrip()}\n{_INDENT}", parts, columns, indent=len(_INDENT))


def _fold(head: str, parts: list[str], columns: int, *, indent: int) -> str:
    """Break what follows the head between its parts, and a part that is too long between words."""
    room = max(1, columns - indent)
    lines = [""]
    for part in map(printable, parts):
        joined = f"{lines[-1]}  {part}" if lines[-1] else part
        if len(joined) <= room:
            lines[-1] = joined
            continue
        lines += textwrap.wrap(part, room, break_on_hyphens=False)
    if not lines[0]:
        del lines[0]
    return head + f"\n{' ' * indent}".join(lines)


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
