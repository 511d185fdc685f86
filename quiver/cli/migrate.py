"""``quiver migrate``: another slot table for a store, rehearsed first."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import click

from quiver.cli.opening import hold_store, recovery_bar
from quiver.cli.output import Output
from quiver.cli.program import verb
from quiver.errors import InputError

if TYPE_CHECKING:
    from quiver.disk import Disk
    from quiver.engine.migration import Changes
    from quiver.slots import SlotTable

__all__ = ["migrate"]

_DIGITS_MAX: Final = 9


@verb(
    "migrate",
    examples=(
        ("quiver migrate store --slot metrics", "what a new slot comes to; nothing is changed"),
        ("quiver migrate store --slot metrics --apply", "add it"),
        ("quiver migrate store --rename logs=events --apply", "what it holds stays"),
        ("quiver migrate store --drop traces --apply", "refused while a segment holds data of it"),
    ),
)
@click.argument("folder", metavar="DIR")
@click.option(
    "--slot",
    "added",
    multiple=True,
    metavar="NAME[=ID]",
    help="Add a slot, at the lowest free id unless one is given. Repeatable.",
)
@click.option(
    "--rename", "renamed", multiple=True, metavar="OLD=NEW", help="Rename a slot. Repeatable."
)
@click.option("--drop", "dropped", multiple=True, metavar="NAME", help="Remove a slot. Repeatable.")
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="NAME=ID",
    help="Write another payload type id for a slot, by its new name. Repeatable.",
)
@click.option("--apply", "is_applied", is_flag=True, help="Do it; without it nothing is changed.")
def migrate(
    output: Output,
    *,
    folder: str,
    added: tuple[str, ...],
    renamed: tuple[str, ...],
    dropped: tuple[str, ...],
    types: tuple[str, ...],
    is_applied: bool,
) -> None:
    """Change the slot table of a store.

    Makes all that its logs hold segments, then changes the table of all cores in one step: a crash
    leaves the old one or the new one. Segments stay as they are. A slot keeps its id as long as a
    segment holds data of it: then it can be renamed, not dropped, and its id not be given away.

    Nobody may be writing the store, and nothing in it may be damaged. Without an option it
    finishes a migration that was broken off.
    """
    from quiver.cli.inspect import open_folder
    from quiver.disk import OverlayDisk
    from quiver.engine.migration import Changes

    changes = Changes(
        add={name: _number(name, text) for name, text in _pairs("--slot", added).items()},
        rename=_full_pairs("--rename", renamed),
        drop=dropped,
        payload_types={
            name: int(_number(name, text) or 0)
            for name, text in _full_pairs("--type", types).items()
        },
    )
    local = open_folder(folder)
    with hold_store(local, writing=is_applied) as disk:
        with closing(OverlayDisk(disk)) as overlay:
            tables = _migrate(output, overlay, changes)
        if is_applied:
            tables = _migrate(output, disk, changes)
    _show(output, local.root, tables, is_applied=is_applied)


def _pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    """Read ``NAME=VALUE`` and ``NAME``, each name once; the latter has an empty value."""
    found: dict[str, str] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name in found:
            raise InputError(f"{option} {name!r} is given twice", hint="quiver migrate --help")
        found[name] = value
    return found


def _full_pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    found = _pairs(option, texts)
    for name, value in found.items():
        if not value:
            raise InputError(f"{option} {name!r} lacks its second part", hint=f"{option} NAME=...")
    return found


def _number(name: str, text: str) -> int | None:
    if text and not (text.isascii() and text.isdigit()):
        raise InputError(f"the id of slot {name!r} is {text!r}, no number", hint="--slot NAME=3")
    return int(text[:_DIGITS_MAX]) if text else None


def _migrate(output: Output, disk: Disk, changes: Changes) -> tuple[SlotTable, SlotTable]:
    from quiver.clock import SystemClock
    from quiver.config import Config
    from quiver.engine import migration

    with recovery_bar(output) as watch:
        return migration.migrate(disk, changes, config=Config(), clock=SystemClock(), watch=watch)


def _show(
    output: Output, root: str, tables: tuple[SlotTable, SlotTable], *, is_applied: bool
) -> None:
    from quiver.slots import SlotDifference

    before, after = tables
    if output.as_json:
        output.document(
            {
                "path": root,
                "is_applied": is_applied,
                "layout_digest_before": before.digest().hex(),
                "layout_digest_after": after.digest().hex(),
                "slots_before": _fields(before),
                "slots_after": _fields(after),
            }
        )
        return
    difference = SlotDifference.between(before, after)
    rows = [("dropped", str(slot)) for slot in difference.only_store]
    rows += [("changed", f"{old!s} becomes {new!s}") for old, new in difference.changed]
    rows += [("added", str(slot)) for slot in difference.only_asked]
    output.facts(rows)
    if before == after:
        output.text(f"OK: nothing to change in {root}", style="green")
    elif is_applied:
        output.text(f"migrated {root}; its slots: {_names(after)}", style="green")
    else:
        output.text(f"nothing was changed: --apply gives {root} the slots {_names(after)}")


def _names(table: SlotTable) -> str:
    return ", ".join(slot.name for slot in table)


def _fields(table: SlotTable) -> list[dict[str, Any]]:
    return [
        {
            "slot_id": slot.slot_id,
            "name": slot.name,
            "payload_type_id": slot.payload_type_id,
        }
        for slot in table
    ]
