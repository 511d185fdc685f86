"""``quiver dead-letters retry``: what a subscriber gave up comes to it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Final

import click

from quiver.cli.letters.desk import letters_option
from quiver.cli.opening import config_options
from quiver.cli.output import Output
from quiver.cli.program import verb
from quiver.errors import DamageError, InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from quiver.disk import Disk
    from quiver.engine import Store
    from quiver.engine.letters import Letter

__all__ = ["retry"]

_GROUP_BYTES: Final = 64 << 20
"""Letters that become segments, and are deleted, together."""


@verb(
    "retry",
    examples=(
        ("quiver dead-letters retry store uploader", "once the cause is mended"),
        ("quiver dead-letters retry store uploader --letter 0/1/42.7+1", "one of them"),
        ("quiver dead-letters retry store gone --to uploader", "those of one who is gone"),
    ),
)
@click.argument("folder", metavar="DIR")
@click.argument("name", metavar="NAME")
@click.option("--to", metavar="NAME", help="Who gets them, if that is another subscriber.")
@letters_option
@config_options
def retry(
    output: Output, *, folder: str, name: str, to: str | None, letters: tuple[str, ...]
) -> None:
    """Give dead letters to their subscriber again.

    They are appended to the store, for that subscriber and nobody else, and deleted once that is
    durable; it gets them with its next start. What it gives up again is a dead letter again. Where
    this is broken off, by a kill or a full disk, nothing is lost: letters that were not deleted are
    still there, and some of them may come twice, to others too.
    """
    from quiver.cli.inspect import open_folder
    from quiver.cli.letters.desk import chosen, owned, told
    from quiver.cli.subscribers.desk import held_by, open_cores

    target = to or name
    done: list[Letter] = []
    with (
        open_cores(output, folder, call=f"store.append_for({target!r}, bundle)") as stores,
        closing(open_folder(folder)) as disk,
    ):
        found = chosen(owned(output, folder, name), letters)
        held = held_by(stores, target) if found else {}
        try:
            for group in _groups(found):
                store = held.get(group[0].core, next(iter(held.values())))
                _again(output, disk, group, store=store, name=target, done=done)
        finally:
            if len(done) < len(found):
                output.warn(f"quiver: {len(done)} of {told(found)} were taken; the rest stays")
    if output.as_json:
        bundles = sum(letter.bundle_count for letter in done)
        fields = {"letter_count": len(done), "bundle_count": bundles}
        output.document({"subscriber": target, **fields})
    else:
        output.text(f"{told(done)} will come to {target} again")


def _groups(letters: Sequence[Letter]) -> list[list[Letter]]:
    """Put letters of one core together, as many as are worth a segment."""
    groups: list[list[Letter]] = []
    filled = 0
    for letter in letters:
        if not groups or groups[-1][0].core != letter.core or filled >= _GROUP_BYTES:
            groups.append([])
            filled = 0
        groups[-1].append(letter)
        filled += letter.file_bytes
    return groups


def _again(
    output: Output,
    disk: Disk,
    letters: Sequence[Letter],
    *,
    store: Store,
    name: str,
    done: list[Letter],
) -> None:
    """Append letters of one core, then delete them; one that is damaged stays."""
    from quiver.engine.letters import remove_letters

    taken: list[Letter] = []
    try:
        for letter in letters:
            try:
                bundles = _bundles(disk, store, letter)
            except DamageError as error:
                output.warn(f"quiver: dead letter {letter.name} is damaged: {error}")
                continue
            for bundle in bundles:
                store.append_for(name, bundle)
            taken.append(letter)
    finally:
        store.finalize()
        store.maintain()  # Others have acked it, and that is durable.
        remove_letters(disk, taken)
        done += taken


def _bundles(disk: Disk, store: Store, letter: Letter) -> list[Mapping[str, pa.RecordBatch]]:
    from quiver.segment import SegmentReader

    with SegmentReader.open(disk, letter.path) as reader:
        slots = reader.slots or store.slots
        found: list[Mapping[str, pa.RecordBatch]] = []
        for index in range(reader.bundle_count):
            bundle = {slots[number].name: batch for number, batch in reader.bundle(index).items()}
            if unknown := [slot for slot in bundle if slot not in store.slots]:
                raise InputError(
                    f"dead letter {letter.name}: the store has no slot {unknown[0]!r} any more",
                    hint="quiver migrate adds one; quiver dead-letters show tells what is in it",
                )
            found.append(bundle)
    return found
