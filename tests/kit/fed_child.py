"""A process that follows a folder into a store until it is killed, and tells of each bundle."""

from __future__ import annotations

import sys

import quiver
from quiver.cli.connectors import connector_of, parse_source
from quiver.source import Feeder


def tell(rows: int) -> None:
    """Say that a bundle was taken."""
    sys.stdout.write(f"{rows}\n")
    sys.stdout.flush()


def main() -> None:
    """Follow ``argv[2]`` into the store ``argv[1]``; a line for each bundle."""
    store_path, source = sys.argv[1:]
    config = {"segment": {"target_size": 20_000}, "wal": {"durability": "interval"}}
    with quiver.open(store_path, slots=["events"], config=config) as store:
        word = parse_source(source)
        connector = connector_of(word)(f"{store_path}/keep")
        feeder = Feeder(store, connector, source=word.name, slot="events", every=0.25)
        feeder.run(watch=tell)


if __name__ == "__main__":
    main()
