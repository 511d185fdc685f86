"""``quiver dead-letters rm``: delete dead letters for good."""

from __future__ import annotations

from contextlib import closing

import click

from quiver.cli.letters.desk import letters_option
from quiver.cli.output import Output
from quiver.cli.program import verb
from quiver.cli.subscribers.desk import yes_option

__all__ = ["rm"]


@verb(
    "rm",
    examples=(
        ("quiver dead-letters rm store uploader", "says how much that is, and asks"),
        ("quiver dead-letters rm store uploader --letter 0/1/42.7+1 --yes", "one of them"),
    ),
)
@click.argument("folder", metavar="DIR")
@click.argument("name", metavar="NAME")
@letters_option
@yes_option
def rm(output: Output, *, folder: str, name: str, letters: tuple[str, ...], yes: bool) -> None:
    """Delete dead letters for good.

    All of one subscriber, also of one that was removed, or some of them. What is in them is in the
    store no more, unless somebody else still needs it.
    """
    from quiver.cli.inspect import open_folder
    from quiver.cli.letters.desk import chosen, owned, told
    from quiver.cli.opening import hold_store
    from quiver.cli.subscribers.desk import ask
    from quiver.engine.letters import remove_letters
    from quiver.errors import LockedError
    from quiver.units import format_bytes

    found = chosen(owned(output, folder, name), letters)
    byte_count = sum(letter.file_bytes for letter in found)
    if found:
        about = f"{told(found)} of {name}, {format_bytes(byte_count)}, will be deleted for good."
        ask(output, about, f"Delete dead letters of {name}?", yes=yes)
        try:
            with closing(open_folder(folder)) as local, hold_store(local, writing=True) as disk:
                remove_letters(disk, found)
        except LockedError as error:
            hint = "end that process first (SIGTERM, if it is quiver run)"
            raise LockedError(error.message, pid=error.pid, hint=hint) from error
    if output.as_json:
        fields = {"subscriber": name, "letter_count": len(found), "deleted_bytes": byte_count}
        output.document(fields)
    else:
        output.text(f"{told(found)} of {name} deleted")
