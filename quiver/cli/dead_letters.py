"""``quiver dead-letters``: see what subscribers gave up, and have it come to them again."""

from __future__ import annotations

from typing import Final

from quiver.cli.program import family

__all__ = ["VERBS", "dead_letters"]

VERBS: Final[dict[str, str]] = {
    "ls": "List the dead letters of a store.",
    "show": "Show one dead letter, or what is in it.",
    "retry": "Give dead letters to their subscriber again.",
    "rm": "Delete dead letters for good.",
}
"""The verbs of this family, and the first line of their help."""


@family(
    "dead-letters",
    verbs=VERBS,
    package="quiver.cli.letters",
    examples=(
        ("quiver dead-letters ls store", "what was given up, by whom, and why"),
        ("quiver dead-letters retry store uploader", "once the cause is mended"),
        ("quiver dead-letters rm store uploader", "says first how much that is"),
    ),
)
def dead_letters() -> None:
    """Look after what subscribers of a store gave up.

    They rejected it, or tried too often. A letter is named as ls shows it: CORE/SUBSCRIBER
    ID/SEGMENT.FIRST+COUNT. retry and rm open the store as its writer: while another process has it
    open, as quiver run does, they are refused: end it with SIGTERM first, and start it again behind
    them.
    """
