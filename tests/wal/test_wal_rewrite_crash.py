"""A power cut anywhere in a rewrite of the active file leaves a log that replays the same."""

from __future__ import annotations

import pytest
from wal_kit import DIGEST, LIMIT, bundle

from quiver.config import WalConfig
from quiver.testing import MemoryDisk
from quiver.testing.acts import Mark
from quiver.testing.crash_images import Model, crash_images
from quiver.wal import Log, Replay


def opened(disk: MemoryDisk, covered: int | None) -> tuple[Log, list[int]]:
    replay = Replay(
        disk,
        "wal",
        digest=DIGEST,
        entry_bytes_max=LIMIT,
        quarantine="quarantine",
        covered_seq=covered,
    )
    found = [item.wal_seq for item, _ in replay]
    assert not replay.damage
    return replay.finish(WalConfig(reclaim="copy", reclaim_size=1)), found


def rewritten() -> MemoryDisk:
    """Cover four of six, then append one more, then cover six of seven."""
    disk = MemoryDisk()
    disk.make_dir("wal")
    disk.sync_dir("")
    disk = MemoryDisk(disk.tree)
    log, _ = opened(disk, None)
    places = [log.append(bundle(seq)) for seq in range(6)]
    log.sync_all()
    disk.mark("covered", seq=3, durable=5)
    log.truncate(places[3])
    assert log.end.generation == 2
    places.append(log.append(bundle(6)))
    log.sync(places[6])
    disk.mark("covered", seq=5, durable=6)
    log.truncate(places[5])
    assert log.end.generation == 3
    disk.mark("covered", seq=5, durable=6)
    return disk


@pytest.mark.parametrize("model", ["posix", "journaled"])
def test_what_no_segment_holds_is_there_whenever_the_power_goes(model: Model) -> None:
    history = rewritten().history
    begun = next(at for at, op in enumerate(history.ops) if isinstance(op, Mark))
    judged = 0
    for image in crash_images(
        history, model=model, budget=4000, points=range(begun + 1, len(history.ops) + 1)
    ):
        if image.torn_apart:
            continue
        facts = dict([*image.marks][-1].facts)
        covered, durable = facts["seq"], facts["durable"]
        disk = image.disk()
        for _ in range(2):
            log, found = opened(disk, covered)
            assert found == list(range(covered + 1, covered + 1 + len(found)))
            assert found[-1:] >= [durable]
            log.close()
            judged += 1
    assert judged > 40
