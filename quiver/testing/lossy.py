"""Lives of a store that may lose what nobody took: too much of it, or too old.

What is about to be lost is marked first, as what a subscriber may have no more; once its outcomes
are synced no subscriber gets it, whatever happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from unittest import mock

from quiver.engine import dropping, space
from quiver.engine.census import used_bytes
from quiver.engine.core import Core
from quiver.segment import SegmentReader
from quiver.testing.rehearsal import Rehearsal

__all__ = ["LOSSY", "LOSSY_CONFIGS", "losing"]

_TIGHT: Final[Mapping[str, Any]] = {
    "wal": {"rotate_size": 3000, "reclaim_size": 1, "max_size": 8000},
    "acks": {"max_size": 320},
    "limits": {"entry_bytes": 4000},
    "segment": {"target_size": 2000},
}
_CAP: Final = 150_000


@contextmanager
def losing(life: Rehearsal) -> Iterator[None]:
    """Let the store lose what it likes inside, mark it before, and settle what is written off."""
    of_segment, of_open = space.write_off_segment, dropping.write_off_open

    def write_off_segment(core: Core, segment_seq: int, reason: int) -> dict[str, int]:
        with SegmentReader.open(core.disk, core.catalog.get(segment_seq).path) as reader:
            numbers = [reader.bundle_entry(n).wal_seq or 0 for n in range(reader.bundle_count)]
        names = _mark(life, numbers)
        lost = of_segment(core, segment_seq, reason)
        for name in names:
            life.unsettled.setdefault(name, []).extend(numbers)
        return lost

    def write_off_open(core: Core) -> None:
        sealed = core.sealed
        numbers = [] if sealed is None else [b.wal_seq for b in sealed.content.bundles]
        names = _mark(life, numbers)
        of_open(core)
        for name in names:  # No file has to go for that: it is synced by now.
            life.stage.mark("settled", subscriber=name, numbers=tuple(numbers))

    with (
        mock.patch.object(space, "write_off_segment", write_off_segment),
        mock.patch.object(dropping, "write_off_open", write_off_open),
    ):
        yield


def _mark(life: Rehearsal, numbers: list[int]) -> tuple[str, ...]:
    """Mark that these may be lost from now on; give for whom."""
    names = life.store.info().subscribers
    life.stage.mark("dropping", numbers=tuple(numbers))
    for name in names:
        for number in numbers:
            life.stage.mark("acked", subscriber=name, number=number)
    if numbers and not names:
        life.stage.mark("skipped", first=min(numbers), end=max(numbers) + 1)
    return tuple(names)


def drop_the_oldest(life: Rehearsal) -> None:
    """Fill a small store again and again; one subscriber takes some, the other nothing."""
    life.register("a", "b")
    with losing(life):
        for _ in range(9):
            life.survive(lambda: life.append(3))
            life.survive(lambda: life.take("a", 2))
        life.survive(life.maintain)
        life.crash()
        life.open()
        for _ in range(2):
            life.survive(lambda: life.append(3))
        life.survive(life.finalize)
        life.survive(lambda: life.take("b", 4))
        life.survive(life.maintain)


def drop_without_subscribers(life: Rehearsal) -> None:
    """Keep the newest of what nobody asked for yet."""
    with losing(life):
        for _ in range(9):
            life.survive(lambda: life.append(3))
        life.survive(life.maintain)
        life.survive(lambda: life.take("late", 3))
        life.survive(life.maintain)


def drop_what_is_open(life: Rehearsal) -> None:
    """Lose what is in no segment yet, twice, the second time behind what is in one."""
    life.register("a")
    with losing(life):  # It may be full already, of what an earlier life in the place left.
        for count in (2, 1):
            life.survive(lambda count=count: life.append(count))  # type: ignore[misc]
            life.survive(life.maintain)
            _fill(life.store._core)
            life.survive(lambda: life.append(1))
            life.store._core.quarantine_bytes = 0
            life.survive(lambda: life.append(2))
            life.survive(life.finalize)
            life.survive(lambda: life.take("a", 1))
            life.survive(life.maintain)
        life.survive(lambda: life.append(1))


def _fill(core: Core) -> None:
    """Let something else take so much that without all segments the next bundle does not fit.

    No more than that: nothing is dropped for a bundle that would not fit into an empty store.
    """
    kept = used_bytes(core) - core.catalog.allocated_bytes
    core.quarantine_bytes += max(_CAP - kept, 0)


def grow_too_old(life: Rehearsal) -> None:
    """Let segments grow too old, some of them half taken, over restarts and a stepped clock."""
    life.register("a", "b")
    steps: tuple[Callable[[], None], ...] = (
        lambda: life.append(2),
        life.finalize,
        lambda: life.take("a", 1),
    )
    with losing(life):
        for _ in range(4):
            for step in steps:
                life.survive(step)
            life.clock.step("20m")
            life.survive(life.maintain)
        life.crash()
        life.clock.step("25m")
        life.open()
        life.clock.jump_to(life.clock.wall_ns() + 10**18)
        life.survive(life.maintain)
        life.survive(lambda: life.append(2))
        life.survive(lambda: life.take("b", 1))
        for _ in range(3):
            life.clock.step("20m")
            life.survive(life.maintain)


def keep_some(life: Rehearsal) -> None:
    """Keep a little of what everybody has, and give it up when there is no room."""
    life.register("a")
    with losing(life):
        for _ in range(7):
            life.survive(lambda: life.append(3))
            life.survive(life.finalize)
            life.survive(lambda: life.take("a"))
            life.survive(life.maintain)
        for _ in range(4):
            life.survive(lambda: life.append(3))
        life.survive(life.maintain)


def _config(**retention: object) -> Mapping[str, Any]:
    return {**_TIGHT, "retention": retention}


LOSSY: Final[Mapping[str, Callable[[Rehearsal], None]]] = {
    "drop the oldest": drop_the_oldest,
    "drop without subscribers": drop_without_subscribers,
    "drop what is open": drop_what_is_open,
    "grow too old": grow_too_old,
    "keep some": keep_some,
}
LOSSY_CONFIGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "drop the oldest": _config(size_cap=_CAP, size_cap_policy="drop_oldest"),
    "drop without subscribers": _config(size_cap=_CAP, size_cap_policy="drop_oldest"),
    "drop what is open": {
        **_config(size_cap=_CAP, size_cap_policy="drop_oldest"),
        "acks": {"max_size": 640},  # A checkpoint, but not at once behind each loss.
    },
    "grow too old": _config(max_retain_after_ingestion_hours=1),
    "keep some": _config(size_cap=_CAP, steady_state_headroom=20_000),
}
