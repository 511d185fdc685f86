"""``quiver subscriber``: see who takes bundles of a store, and let them come, move and go."""

from __future__ import annotations

from typing import Final

from quiver.cli.program import family

__all__ = ["VERBS", "subscriber"]

VERBS: Final[dict[str, str]] = {
    "ls": "List the subscribers of a store, and who seems to be gone.",
    "add": "Register a subscriber.",
    "rm": "Remove a subscriber for good.",
    "reset": "Let a subscriber start over.",
    "pause": "Deliver nothing to a subscriber for now.",
    "resume": "Deliver to a paused subscriber again.",
    "rename": "Give a subscriber another name.",
}
"""The verbs of this family, and the first line of their help."""


@family(
    "subscriber",
    verbs=VERBS,
    package="quiver.cli.subscribers",
    examples=(
        ("quiver subscriber ls store", "who there is, and who seems to be gone"),
        ("quiver subscriber add store uploader --start latest", "from now on"),
        ("quiver subscriber rm store uploader", "says first what may be deleted then"),
    ),
)
def subscriber() -> None:
    """Look after the subscribers of a store.

    All but ls open the store as its writer. While another process has it open, that process has to
    do it: the same acts are methods of Store. How far they are behind: quiver lag.
    """
