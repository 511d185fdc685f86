"""``quiver chain``: partitions that are kept by nodes: seen, looked after, read."""

from __future__ import annotations

from typing import Final

from quiver.cli.program import family

__all__ = ["VERBS", "chain"]

VERBS: Final[dict[str, str]] = {
    "ls": "List partitions, or the blocks of some.",
    "mirror": "Read partitions into a store of this machine, each bundle once.",
    "status": "Say which nodes there are, if blocks have their copies, how far subscribers are.",
    "top": "Watch nodes and partitions live.",
    "gc": "Purge blocks of which all subscribers have everything.",
    "pause": "Deliver nothing to a subscriber of a chain for now.",
    "resume": "Deliver to a subscriber of a chain again.",
    "reset": "Have a subscriber of a chain begin anew.",
    "rename": "Give a subscriber of a chain another name.",
    "unsubscribe": "Forget a subscriber of a chain for good.",
    "repair": "Look after all partitions once, now.",
    "balance": "Move blocks from fuller nodes to emptier ones now.",
    "drain": "Move what a node has to others, so that it may be stopped for good.",
    "abandon": "Give up an open block of which every copy is lost.",
}
"""The verbs of this family, and the first line of their help."""


@family(
    "chain",
    verbs=VERBS,
    package="quiver.cli.chains",
    examples=(
        ("quiver chain ls --metadata /mnt/meta", "partitions"),
        ("quiver chain ls core_0 --metadata etcd://e1:2379/q", "blocks of one"),
        ("quiver chain status --metadata s3://bucket/q", "nodes, and copies that are wanted"),
        ("quiver chain drain n1 --metadata /mnt/meta", "before n1 is stopped for good"),
    ),
)
def chain() -> None:
    """Look into partitions that are kept by nodes, and look after them.

    Metadata are a folder of this machine, a bucket, or etcd; all nodes of a chain have the same. By
    way of a node that is up they are reached as well: --metadata quiver://host:port.
    """
