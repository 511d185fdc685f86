"""Which dead letters a verb is about, and how it reports them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from quiver.cli.output import Output, count
from quiver.errors import DamageError, InputError

if TYPE_CHECKING:
    from quiver.engine.letters import Letter

__all__ = ["chosen", "letter_fields", "letters_option", "owned", "read_letters", "told"]


def letters_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make the option ``--letter``."""
    return click.option(
        "--letter",
        "letters",
        multiple=True,
        metavar="LETTER",
        help="Only this one, as ls names it. Repeatable.",
    )(function)


def read_letters(output: Output, folder: str) -> Iterator[tuple[str, Letter]]:
    """Go through the letters of all cores, each with the name that its subscriber has now.

    Whoever was renamed has them under the new name; of one who is gone the old name is known.
    """
    from quiver.cli.inspect import core_numbers, open_folder
    from quiver.cli.standing import read_core
    from quiver.engine.letters import list_letters
    from quiver.manifest import StoreManifest

    with closing(open_folder(folder)) as disk:
        store_id = StoreManifest.read(disk).store_id
        for core in core_numbers(disk):
            registry = read_core(disk, core, store_id=store_id, warn=output.warn).registry
            names = {number: name for name, number in registry.ids.items()}
            for letter in list_letters(disk, core):
                if isinstance(letter, DamageError):
                    output.warn(f"quiver: {letter}")
                else:
                    yield names.get(letter.subscriber_id, letter.subscriber), letter


def owned(output: Output, folder: str, name: str) -> list[Letter]:
    """List the letters of one subscriber, also of one who is gone; SubscriberError if none was."""
    from quiver.cli.standing import read_store

    found = [letter for owner, letter in read_letters(output, folder) if owner == name]
    if not found:
        read_store(folder, name, warn=lambda _: None)
    return found


def chosen(letters: Collection[Letter], wanted: Sequence[str]) -> list[Letter]:
    """Pick some by name, or all if none is named; InputError for one that is not there."""
    found = {letter.name: letter for letter in letters}
    if unknown := [name for name in wanted if name not in found]:
        raise InputError(
            f"there is no dead letter {unknown[0]!r}", hint="quiver dead-letters ls names them"
        )
    return [found[name] for name in dict.fromkeys(wanted)] if wanted else list(letters)


def told(letters: Collection[Letter]) -> str:
    """Say how many letters there are, and of how many bundles."""
    bundles = sum(letter.bundle_count for letter in letters)
    return f"{count(len(letters), 'dead letter')} with {count(bundles, 'bundle')}"


def letter_fields(owner: str, letter: Letter) -> dict[str, Any]:
    """Name what is known of a letter as reports do."""
    return {
        "letter": letter.name,
        "core": letter.core,
        "subscriber": owner,
        "subscriber_id": letter.subscriber_id,
        "segment_seq": letter.segment_seq,
        "bundle_first": letter.bundle_first,
        "bundle_count": letter.bundle_count,
        "at_time": letter.at or None,
        "attempts": letter.attempts,
        "outcome": letter.outcome,
        "reason": letter.reason,
        "path": letter.path,
        "file_bytes": letter.file_bytes,
    }
