"""``quiver config check``: everything that is wrong with a config."""

from __future__ import annotations

import click

from quiver.cli.exits import OK, USAGE
from quiver.cli.opening import examined, set_option
from quiver.cli.output import Output, count
from quiver.cli.program import verb

__all__ = ["check"]


@verb(
    "check",
    examples=(
        ("quiver config check quiver.yaml && echo fine", "exit code 2 if anything is wrong"),
        ("quiver config check quiver.toml --set wal.max_size=1GB", "with this above it"),
        ("quiver config check quiver.yaml --json | jq '.problems[].message'", "for programs"),
    ),
)
@click.argument("file", metavar="FILE")
@set_option
def check(output: Output, *, file: str) -> int:
    """Say what is wrong with a config, or OK.

    Unknown options, wrong values, and values that contradict each other; also those of the
    environment and --set, as for a verb that would open a store with it. What contradicts each
    other is looked for once each option is right.
    """
    loaded, errors = examined(output, file)
    given = 0
    if loaded is not None:
        given = sum(origin.kind != "default" for _, _, origin in loaded.items())
    if output.as_json:
        problems = [{"message": error.message, "hint": error.hint} for error in errors]
        output.document({"file": file, "given_count": given, "problems": problems})
    elif errors:
        for error in errors:
            output.text(str(error), style="red")
        output.text(f"{count(len(errors), 'problem')} in {file}", style="red")
    else:
        output.text(f"OK: {count(given, 'option')} given in {file}", style="green")
    return USAGE if errors else OK
