"""``quiver config``: the options of a store, from wherever they come."""

from __future__ import annotations

from typing import Final

from quiver.cli.program import family

__all__ = ["VERBS", "config"]

VERBS: Final[dict[str, str]] = {
    "check": "Say what is wrong with a config, or OK.",
    "show": "Show every option, its value, and where it is from.",
}
"""The verbs of this family, and the first line of their help."""


@family(
    "config",
    verbs=VERBS,
    package="quiver.cli.configs",
    examples=(
        ("quiver config check quiver.yaml && echo fine", "before it is used"),
        ("quiver config show quiver.yaml", "with the defaults, as YAML"),
        ("quiver config show --set wal.max_size=1GB", "what would be used"),
    ),
)
def config() -> None:
    """Check the options of a store, or show all of them.

    Later ones go above earlier ones: defaults, FILE, the environment (QUIVER_WAL__MAX_SIZE=1GB is
    wal.max_size), --set. CONFIG.md has every option.
    """
