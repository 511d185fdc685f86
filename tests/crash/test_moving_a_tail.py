"""Every crash while the log moves to a file of its own, with bundles behind what segments hold.

A finalize leaves nothing behind what it covers, so this happens only after a refusal: here the
sidecar could not be written, bundles came, and the next upkeep had a tail to move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from unittest import mock

import pytest

from quiver.errors import QuiverError
from quiver.testing.campaign import MODELS, judge_disk
from quiver.testing.crash_images import crash_images
from quiver.testing.lives import lead
from quiver.testing.memory_disk import MemoryDisk
from quiver.testing.oracle import QuiverSubject
from quiver.testing.subject import Loss
from quiver.wal.log import Log
from quiver.wal.writer import Writer

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*lost without an outcome:ResourceWarning"),
    pytest.mark.slow,
]

LIFE = "without holes"
IMAGES = 200


def moves() -> Iterator[tuple[MemoryDisk, range]]:
    """Lead lives in which a tail moves: the disk, and the acts of the move."""
    whole = MemoryDisk()
    lead(LIFE, whole)
    for act in range(whole.act_count):
        disk = MemoryDisk()
        disk.fail(act, error="ENOSPC", sticky=False)
        found: list[range] = []

        def watched(log: Log, offset: int, rewrite: Callable = Log._rewrite) -> None:
            has_tail, first = offset < log._writer.end, len(disk.history.ops)  # noqa: B023
            rewrite(log, offset)
            if has_tail:
                found.append(range(first, len(disk.history.ops) + 1))  # noqa: B023

        with mock.patch.object(Log, "_rewrite", watched):
            try:
                lead(LIFE, disk)
            except QuiverError:
                continue
        yield from ((disk, acts) for acts in found)


def judged() -> int:
    """Judge every image of every move; raises Loss."""
    subject, count = QuiverSubject(), 0
    seen: set[tuple[object, bytes]] = set()
    for disk, acts in moves():
        for model in MODELS:
            for image in crash_images(
                disk.history, model=model, budget=IMAGES, seed=0, points=acts
            ):
                facts = subject.facts(image.marks)
                if (facts, image.digest) not in seen:
                    seen.add((facts, image.digest))
                    judge_disk(subject, image.disk(), life=LIFE, facts=facts, torn=image.torn_apart)
                    count += 1
    return count


def test_no_crash_of_the_move_loses_anything() -> None:
    assert judged() > 50


def test_a_tail_that_is_not_moved_is_missed() -> None:
    with (
        mock.patch.object(Writer, "copy_tail", lambda self, offset, target, at: at),
        pytest.raises(Loss),
    ):
        judged()
