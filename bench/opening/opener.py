"""Opens a store that was killed: ``python -m bench.opening.opener FOLDER bundle|append``.

Prints the seconds until a subscriber has the first bundle, or until an append is taken, the seconds
of CPU time, and how many bundles came back. Everything was imported, and done once, before.
"""

from __future__ import annotations

import cProfile
import os
import pstats
import sys
import time

import quiver
from bench.wal import shapes
from quiver.engine import Store
from quiver.testing import MemoryDisk


def until(store: Store, what: str) -> None:
    """Wait for the first bundle, or for an append to be taken."""
    if what == "append":
        store.append(shapes.standard(10), wait=False)
    elif store.subscribe("reader").next(timeout=60) is None:
        raise TimeoutError("no bundle came")


def main() -> None:
    """Open it once in memory, and then what is asked for."""
    folder, what, *profiled = sys.argv[1:]
    with quiver.open("x", slots=shapes.SLOTS, disk=MemoryDisk()) as store:
        store.append(shapes.standard(10))
        store.finalize()
        until(store, "append")
        until(store, "bundle")
    profile = cProfile.Profile()
    if profiled:
        profile.enable()
    cpu, begun = time.process_time(), time.perf_counter()
    store = quiver.open(folder)
    until(store, what)
    took, cpu = time.perf_counter() - begun, time.process_time() - cpu
    profile.disable()
    print(took, cpu, store.recovery.replayed_bundles, flush=True)
    if profiled:
        pstats.Stats(profile).dump_stats(profiled[0])
    os._exit(0)


if __name__ == "__main__":
    main()
