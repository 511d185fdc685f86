"""The entry point ``quiver``. Without the packages of the command line it says which to install."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from quiver.cli.exits import USAGE

__all__ = ["main"]

_NEEDED: Final = ("click", "rich")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and give its exit code; ``arguments`` default to the process's own."""
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
