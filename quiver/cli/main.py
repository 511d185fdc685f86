"""The entry point ``quiver``. Without the packages of the command line it says which to install."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

from quiver.cli.exits import USAGE

__all__ = ["main"]

_NEEDED: Final = ("click", "rich")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and give its exit code; ``arguments`` default to the process's own."""
    _fill_closed_streams()
    try:
        from quiver.cli.program import program
    except ModuleNotFoundError as error:
        if error.name not in _NEEDED:
            raise
        sys.stderr.write(
            f"quiver: the command line needs the package {error.name!r}\n"
            "hint: pip install 'quiver-store[cli]'\n"
        )
        return USAGE
    return program.run(arguments)


def _fill_closed_streams() -> None:
    """Put a stream to nowhere where the caller closed stdout or stderr; Python has None there."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (open to the end)
            setattr(sys, name, nowhere)
