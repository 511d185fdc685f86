"""``quiver config show``: every option as it would be used."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace

import click

from quiver.cli.opening import PIPELINE, kind_of, set_option, settings
from quiver.cli.output import Output
from quiver.cli.program import verb
from quiver.errors import ConfigError

__all__ = ["show"]


@verb(
    "show",
    examples=(
        ("quiver config show", "the defaults"),
        ("quiver config show quiver.yaml --set wal.max_size=1GB", "and these above them"),
        ("quiver config show quiver.toml > quiver.yaml", "it is YAML, and loads as the same"),
    ),
)
@click.argument("file", metavar="[FILE]", required=False)
@set_option
def show(output: Output, *, file: str | None) -> None:
    """Show every option, its value, and where it is from.

    The value in its plainest unit stands behind it, and the line of FILE, the variable of the
    environment or --set that it is from. A file of a pipeline is refused: config check is for that.
    """
    from quiver.config_file import option_text, option_unit

    if file is not None and kind_of(file) == PIPELINE:
        raise ConfigError(
            f"{file} is of a pipeline, and this shows the options of one store",
            hint=f"quiver config check {shlex.quote(file)}; this takes a store's options alone",
        )
    output.config_file = file
    loaded = settings(output)
    if loaded.path is not None:  # Wherever this is read again, it is the same folder.
        loaded = replace(loaded, path=os.path.abspath(loaded.path))
    if not output.as_json:
        output.lines(loaded.dump().rstrip("\n"))
        return
    options = [
        {
            "key": key,
            "value": value,
            "unit": option_unit(key) or None,
            "text": option_text(key, value),
            "origin": origin.kind,
            "place": origin.place or None,
        }
        for key, value, origin in loaded.items()
    ]
    output.document({"file": file, "path": loaded.path, "options": options})
