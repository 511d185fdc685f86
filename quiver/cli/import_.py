"""``quiver import``: what the Rust Quiver wrote becomes a new store, rehearsed first."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import click

from quiver.cli.exits import DAMAGED, OK
from quiver.cli.output import Output, count
from quiver.cli.program import verb
from quiver.errors import InputError, MissingError

if TYPE_CHECKING:
    from quiver.disk import LocalDisk
    from quiver.engine.inventory import CoreStock
    from quiver.errors import DamageError
    from quiver.slots import SlotTable
    from quiver.upstream import UpstreamFolder

__all__ = ["import_"]

_DIGITS_MAX: Final = 9


@verb(
    "import",
    examples=(
        ("quiver import SOURCE store", "what there is; nothing is changed"),
        ("quiver import SOURCE store --apply", "make the store, whole or not at all"),
        ("quiver import SOURCE store --slot logs=30", "name its slots"),
        ("quiver import SOURCE store --json | jq '.cores[].damage'", "what cannot be taken"),
    ),
)
@click.argument("source", metavar="SOURCE")
@click.argument("folder", metavar="DIR")
@click.option(
    "--slot",
    "slots",
    multiple=True,
    metavar="NAME=ID",
    help="Name a slot; others are called slot_ID. Repeatable.",
)
@click.option("--strict", is_flag=True, help="Refuse a source that is damaged anywhere.")
@click.option("--apply", "is_applied", is_flag=True, help="Do it; without it nothing is changed.")
def import_(
    output: Output,
    *,
    source: str,
    folder: str,
    slots: tuple[str, ...],
    strict: bool,
    is_applied: bool,
) -> int:
    """Take over what the Rust Quiver wrote.

    Makes a new store of it. SOURCE is one of its data folders, or a folder of such folders, core_0,
    core_1 and so on; it is only read, and its writer must be stopped. Each segment becomes one of
    the same number with the same bundles, what is only in the log becomes the last one, and each
    subscriber finds open what was open. Segments there do not say when their bundles came: the
    time at which their file was written stands for it.

    All of the source is read first, also without --apply. What is damaged is told, left out and
    kept in quarantine; the exit code is 9 then. If the import is broken off there is no store.
    """
    from quiver.disk import LocalDisk

    named = _named(slots)
    target = os.path.abspath(folder)
    with closing(LocalDisk(source)) as disk:
        found = _find(disk)
        _check_apart(disk.root, target)
        _check_target(target)
        stocks = _read(output, found)
        damage = [error for stock in stocks for error in stock.damage]
        if strict and damage:
            raise damage[0]
        table = _table(named, stocks)
        if is_applied:
            _apply(stocks, target, table)
    if output.as_json:
        output.document(_document(disk.root, target, table, stocks=stocks, is_applied=is_applied))
    else:
        _print(output, target, table, stocks=stocks, is_applied=is_applied)
    return DAMAGED if damage else OK


def _named(texts: Sequence[str]) -> dict[int, str]:
    """Read ``NAME=ID``; each id may be named once."""
    found: dict[int, str] = {}
    for text in texts:
        name, _, number = text.partition("=")
        if not (number.isascii() and number.isdigit()):
            raise InputError(f"--slot {text!r} lacks the id of the slot", hint="--slot logs=30")
        slot_id = int(number[:_DIGITS_MAX])
        if slot_id in found:
            raise InputError(f"--slot names the id {slot_id} twice", hint="one name for each id")
        found[slot_id] = name
    return found


def _find(disk: LocalDisk) -> UpstreamFolder:
    from quiver import upstream
    from quiver.manifest import MANIFEST_NAME

    found = upstream.find(disk)
    if found is not None:
        return found
    if disk.stat(MANIFEST_NAME) is not None:
        raise InputError(f"{disk.root} is a store of Quiver's own", hint="open it as it is")
    raise MissingError(
        f"there is nothing in {disk.root} that the Rust Quiver wrote",
        path=disk.root,
        hint="name a folder with wal/, segments/ or quiver.sub.* in it, or one with core_0/",
    )


def _check_apart(source: str, target: str) -> None:
    """Refuse to make a store inside of what is only read."""
    real = os.path.realpath(source)
    if os.path.commonpath([real, os.path.realpath(target)]) == real:
        raise InputError(
            f"{target} lies in {source}, where nothing is ever changed",
            hint="name a folder beside it",
        )


def _check_target(target: str) -> None:
    """Refuse a folder that is taken before everything is read."""
    from quiver.disk import LocalDisk
    from quiver.engine.takeover import check_free

    if os.path.isdir(os.path.dirname(target)):
        with closing(LocalDisk(os.path.dirname(target))) as parent:
            check_free(parent, os.path.basename(target))


def _read(output: Output, folder: UpstreamFolder) -> list[CoreStock]:
    from quiver.config import Config
    from quiver.engine.inventory import check_unchanged, take_stock

    limits = Config().limits.for_reading()
    total = sum(size for core in folder.cores for _, size, _ in core.state())
    with output.progress("reading", total, unit="B") as advance:
        stocks = [take_stock(core, limits, advance) for core in folder.cores]
    for stock in stocks:
        check_unchanged(stock)
    return stocks


def _table(named: dict[int, str], stocks: Sequence[CoreStock]) -> SlotTable:
    from quiver.slots import Slot, SlotTable
    from quiver.upstream import slot_name

    seen = {slot_id for stock in stocks for slot_id in stock.slot_ids} | named.keys()
    if not seen:
        raise InputError(
            "no bundle of the source fills a slot, so nobody knows which slots there are",
            hint="name them: --slot logs=30",
        )
    return SlotTable(Slot(i, named.get(i, slot_name(i)), i) for i in sorted(seen))


def _apply(stocks: Sequence[CoreStock], target: str, table: SlotTable) -> None:
    from quiver.clock import SystemClock
    from quiver.config import Config
    from quiver.disk import LocalDisk
    from quiver.engine.takeover import take_over

    with closing(LocalDisk(os.path.dirname(target), create=True)) as parent:
        name = os.path.basename(target)
        take_over(stocks, parent, name, slots=table, config=Config(), clock=SystemClock())


def _document(
    source: str,
    target: str,
    table: SlotTable,
    *,
    stocks: Sequence[CoreStock],
    is_applied: bool,
) -> dict[str, Any]:
    return {
        "source_path": source,
        "path": target,
        "is_applied": is_applied,
        "slots": [{"slot_id": slot.slot_id, "name": slot.name} for slot in table],
        "cores": [_core_fields(stock) for stock in stocks],
    }


def _core_fields(stock: CoreStock) -> dict[str, Any]:
    torn = stock.log.torn
    return {
        "core": stock.core.number,
        "segment_count": len(stock.segments),
        "segment_bundle_count": stock.bundle_count,
        "segment_row_count": stock.row_count,
        "wal_bundle_count": stock.logged_bundles,
        "wal_row_count": stock.logged_rows,
        "may_repeat": stock.log.may_repeat,
        "torn_tail": None if torn is None else _error_fields(torn),
        "subscribers": [
            {
                "source_name": subscriber.source_name,
                "name": subscriber.name,
                "resolved_bundle_count": subscriber.resolved_bundles,
                "open_bundle_count": subscriber.open_bundles,
            }
            for subscriber in stock.subscribers
        ],
        "damage": [_error_fields(error) for error in stock.damage],
    }


def _error_fields(error: DamageError) -> dict[str, Any]:
    return {
        "path": error.path,
        "offset": error.offset,
        "message": error.message,
        "expected": None if error.expected is None else str(error.expected),
        "found": None if error.found is None else str(error.found),
    }


def _print(
    output: Output,
    target: str,
    table: SlotTable,
    *,
    stocks: Sequence[CoreStock],
    is_applied: bool,
) -> None:
    rows = [("slots", ", ".join(f"{slot.name} (id {slot.slot_id})" for slot in table))]
    for stock in stocks:
        rows += _core_rows(stock, many=len(stocks) > 1)
    output.facts(rows)
    if any(stock.segments for stock in stocks):
        text = "segments there do not say when their bundles came; "
        output.say(f"{text}the time at which their file was written stands for it")
    if is_applied:
        output.text(f"imported into {target}", style="green")
    else:
        output.text(f"nothing was changed: --apply makes {target}")


def _core_rows(stock: CoreStock, *, many: bool) -> list[tuple[str, str]]:
    rows = [("core", str(stock.core.number))] if many else []
    segments, bundles = count(len(stock.segments), "segment"), count(stock.bundle_count, "bundle")
    rows.append(("segments", f"{segments}, {bundles}, {count(stock.row_count, 'row')}"))
    logged = f"{count(stock.logged_bundles, 'bundle')} in no segment"
    rows.append(("log", f"{logged}, {count(stock.logged_rows, 'row')}"))
    if stock.log.may_repeat and stock.logged_bundles:
        text = f"{stock.log.may_repeat}: some of these may be in segments as well"
        rows.append(("perhaps twice", text))
    if stock.log.torn is not None:
        place = f"{stock.log.torn.path} at byte {stock.log.torn.offset:,}"
        rows.append(("cut off", f"an append that was not finished, in {place}"))
    for each in stock.subscribers:
        name = each.source_name
        if each.name != name:
            name = f"{name}, from now on {each.name}"
        text = f"{each.resolved_bundles:,} resolved, {each.open_bundles:,} open"
        rows.append(("subscriber", f"{name}: {text}"))
    return rows + [
        ("damaged", f"{error.message} in {error.path} at byte {error.offset:,}")
        for error in stock.damage
    ]
