"""A process that reads a cluster into a store until it is killed, and tells of each bundle."""

from __future__ import annotations

import sys

import quiver
from quiver.chain import Mirror


def tell(rows: int) -> None:
    """Say that a bundle was taken."""
    sys.stdout.write(f"{rows}\n")
    sys.stdout.flush()


def main() -> None:
    """Read the partitions of ``argv[2]`` into the store ``argv[1]``; a line for each bundle."""
    store_path, where = sys.argv[1:]
    config = {"segment": {"target_size": 20_000, "time": "caller"}}
    with (
        quiver.open(store_path, slots=["events"], core=0, config=config) as store,
        quiver.connect(where) as cluster,
        Mirror(store, cluster) as mirror,
    ):
        mirror.run(watch=tell)


if __name__ == "__main__":
    main()
