"""A live cursor: ``python -m bench.demo_chain.reader METADATA JOURNAL STORE LAST``.

Each bundle is noted when it comes, and appended to a store. It ends once it has bundle ``LAST`` and
nothing comes behind it.
"""

from __future__ import annotations

import sys
from typing import Final

import quiver
from bench.demo.source import SLOTS
from bench.demo_chain.journal import Journal
from bench.demo_chain.loader import PARTITION
from bench.demo_stream.telling import say
from quiver.errors import WaitTimeoutError

__all__ = ["main"]

_CONFIG: Final = {"wal": {"durability": "interval"}, "segment": {"target_size": "8MiB"}}


def main(metadata: str, journal: str, path: str, last: int) -> None:
    """Read on until the end of the year."""
    seen, number = Journal(journal), -1
    with (
        quiver.connect(metadata) as cluster,
        quiver.open(path, slots=SLOTS, config=_CONFIG) as store,
        cluster.cursor(PARTITION, live=True) as cursor,
    ):
        say("ready")
        while True:
            try:
                message = cursor.next("1s")
            except WaitTimeoutError:
                if number == last:
                    break
                continue
            if message is None:
                raise SystemExit("a live cursor came to an end")
            number = message.wal_seq
            seen.note([number])
            store.append(message.bundle)
        store.finalize()
    say("done")


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]))
