"""``quiver version``: which Quiver this is, and what it stands on."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Final

from quiver import __version__
from quiver.cli.output import Output
from quiver.cli.program import verb
from quiver.manifest import FORMAT_VERSION

__all__ = ["version"]

_STANDS_ON: Final = ("pyarrow", "numpy")


@verb(
    "version",
    examples=(
        ("quiver version", "one line"),
        ("quiver version --json", "for a bug report"),
    ),
)
def version(output: Output) -> None:
    """Say which version this is.

    Also: the format of the stores that it reads and writes, and what it runs on.
    """
    packages = {name: _installed(name) for name in _STANDS_ON}
    python = platform.python_version()
    if output.as_json:
        output.document(
            {
                "version": __version__,
                "store_format_version": FORMAT_VERSION,
                "python_version": python,
                "platform": platform.platform(),
                **{f"{name}_version": found for name, found in packages.items()},
            }
        )
        return
    parts = [f"{name} {found or 'missing'}" for name, found in packages.items()]
    output.text(
        f"quiver {__version__} (store format {FORMAT_VERSION}, Python {python}, {', '.join(parts)})"
    )


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
