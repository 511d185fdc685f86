"""``quiver queue``: look into a queue in object storage, and tend it."""

from __future__ import annotations

from typing import Final

from quiver.cli.program import family

__all__ = ["VERBS", "queue"]

VERBS: Final[dict[str, str]] = {
    "stat": "Say how much waits in a queue, and since when.",
    "dump": "Show the manifest of a queue as JSON, its entries oldest first.",
    "gc": "Delete batches that nobody points to any more.",
}
"""The verbs of this family, and the first line of their help."""


@family(
    "queue",
    verbs=VERBS,
    package="quiver.cli.queues",
    examples=(
        ("quiver queue stat s3://bucket/queue", "how much waits, and since when"),
        ("quiver queue gc s3://bucket/queue --dry-run", "what could be deleted"),
        ("quiver queue gc /mnt/queue", "a queue in a folder"),
    ),
)
def queue() -> None:
    """Look into a queue in object storage, and tend it.

    A queue is named by the address of its folder: s3://bucket/path, az://container/path,
    gs://bucket/path, or a folder of this machine. Credentials come from the environment, as
    AWS_ACCESS_KEY_ID; other options of the store by --option.
    """
