"""Kill the process at each act, open again, and cut the power after that.

What the killed process wrote is in the page cache: the next one sees it all, durable or not. It
must not rely on it before it has made it durable itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from crash_kit import TINY, WORKLOADS

from quiver.testing import Image, MemoryDisk, crash_images
from quiver.testing.oracle import Loss, Rehearsal, judge

CUTS = 16
"""Power cuts for each kill."""


class Killed(BaseException):
    """The process ends here; nothing may catch it."""


def live_killed(name: str, act: int) -> Rehearsal | None:
    """Live until an act, die there, and live on a little; None if the life is shorter than that."""
    workload, subscribers = WORKLOADS[name]
    disk = MemoryDisk()

    def die(_: object) -> bool:
        if disk.act_count > act:
            raise Killed
        return False

    disk.fail(die)
    life = None
    try:
        life = Rehearsal(config=TINY, disk=disk, subscribers=subscribers)
        workload(life)
    except Killed:
        disk.heal()
        disk.forget_locks()
    else:
        return None
    again = Rehearsal(config=TINY, disk=disk)
    again.sent = again.store.info().next_wal_seq
    again.append(2)
    again.finalize()
    again.append(1)
    return again


def images_after_kills(name: str, step: int) -> Iterator[Image]:
    """Go through images of power cuts after a kill, for each act of a life or each few."""
    act = 0
    while (again := live_killed(name, act)) is not None:
        history = again.disk.history
        points = range(act, len(history.ops) + 1)
        yield from crash_images(history, model="posix", budget=CUTS, seed=act, points=points)
        act += step


def find_loss(name: str, step: int = 1) -> str | None:
    """Judge them until one breaks a promise."""
    for image in images_after_kills(name, step):
        try:
            judge(image, TINY)
        except Loss as loss:
            return f"{loss}\n{image.describe()}"
    return None


@pytest.mark.filterwarnings("ignore:.*lost without an outcome:ResourceWarning")
@pytest.mark.parametrize("name", WORKLOADS)
def test_a_power_cut_after_a_kill_loses_nothing(name: str) -> None:
    loss = find_loss(name, step=2)
    assert loss is None, loss
