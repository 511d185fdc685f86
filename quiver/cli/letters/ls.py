"""``quiver dead-letters ls``: what subscribers gave up, and why."""

from __future__ import annotations

import click

from quiver.cli.output import Output, size
from quiver.cli.program import verb

__all__ = ["ls"]

_COLUMNS = ("letter", "subscriber", "at", "bundles", "size", "attempts", "reason")


@verb(
    "ls",
    examples=(
        ("quiver dead-letters ls store", "all of them"),
        ("quiver dead-letters ls store --subscriber uploader", "of one subscriber"),
        ("quiver dead-letters ls store --json | jq -r .reason | sort | uniq -c", "the reasons"),
    ),
)
@click.argument("folder", metavar="DIR")
@click.option("--subscriber", metavar="NAME", help="Only those of this one.")
def ls(output: Output, *, folder: str, subscriber: str | None) -> None:
    """List the dead letters of a store.

    They are bundles that a subscriber rejected, or that failed subscriber.max_attempts times. Takes
    no lock and changes nothing.
    """
    from quiver.cli.letters.desk import letter_fields, read_letters

    found = [
        letter_fields(owner, letter)
        for owner, letter in read_letters(output, folder)
        if subscriber is None or owner == subscriber
    ]
    if output.as_json:
        for fields in found:
            output.line({"kind": "dead_letter", **fields})
        return
    rows = [
        [
            each["letter"],
            each["subscriber"],
            (each["at_time"] or "-")[:19],
            each["bundle_count"],
            size(each["file_bytes"]),
            each["attempts"],
            each["reason"] or each["outcome"],
        ]
        for each in found
    ]
    output.table("dead letters", _COLUMNS, rows, empty="none")
