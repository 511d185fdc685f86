"""Opens a store that was killed: ``python -m bench.opening.opener FOLDER bundle|append``.

Prints the seconds until a subscriber has the first bundle, or until an append is taken, the seconds
of CPU time, how many bundles came back, and the seconds of each part: the opening itself, recovered
bundles read again and validated, their segment written. Everything was done once before.
"""

from __future__ import annotations

import cProfile
import os
import pstats
import sys
import time
from typing import Any, Final

import quiver
from bench.wal import shapes
from quiver.engine import Store, sealed
from quiver.testing import MemoryDisk

PARTS: Final = ("fetch_stored", "write_segment")


def watched(took: dict[str, float]) -> None:
    """Note how long the parts of a finalize take."""
    for name in PARTS:
        act = getattr(sealed, name)

        def timed(*args: Any, name: str = name, act: Any = act, **more: Any) -> Any:
            begun = time.perf_counter()
            try:
                return act(*args, **more)
            finally:
                took[name] = took.get(name, 0.0) + time.perf_counter() - begun

        setattr(sealed, name, timed)


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
    parts: dict[str, float] = {}
    watched(parts)
    profile = cProfile.Profile()
    if profiled:
        profile.enable()
    cpu, begun = time.process_time(), time.perf_counter()
    store = quiver.open(folder)
    opened = time.perf_counter() - begun
    until(store, what)
    took, cpu = time.perf_counter() - begun, time.process_time() - cpu
    profile.disable()
    found = [parts.get(name, 0.0) for name in PARTS]
    print(took, cpu, store.recovery.replayed_bundles, opened, *found, flush=True)
    if profiled:
        pstats.Stats(profile).dump_stats(profiled[0])
    os._exit(0)


if __name__ == "__main__":
    main()
