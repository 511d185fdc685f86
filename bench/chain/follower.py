"""A live cursor: ``python -m bench.chain.follower METADATA PARTITION JOURNAL COUNT``."""

from __future__ import annotations

import sys

import quiver
from bench.demo_chain.journal import Journal
from bench.demo_stream.telling import say

__all__ = ["main"]


def main(metadata: str, partition: str, journal: str, count: int) -> None:
    """Note each bundle when it comes, until there were so many."""
    seen = Journal(journal)
    with quiver.connect(metadata) as cluster, cluster.cursor(partition, live=True) as cursor:
        say("ready")
        for _ in range(count):
            seen.note([cursor.next("90s").wal_seq])
    say("done")


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]))
