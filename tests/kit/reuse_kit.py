"""A log in memory whose active file was used before."""

from __future__ import annotations

from wal_kit import SIZE, bundle, replay_of

from quiver.config import WalConfig
from quiver.testing.memory_disk import MemoryDisk
from quiver.wal import Log, Replay
from quiver.wal.format import HEADER_BYTES

ACTIVE = "wal/quiver.wal"
ROTATE = HEADER_BYTES + 4 * SIZE


def opened(
    disk: MemoryDisk, covered: int | None = None, **config: object
) -> tuple[Log, list[int], Replay]:
    replay = replay_of(disk, covered)
    found = [item.wal_seq for item, _ in replay]
    how = {"reclaim": "recycle", "reclaim_size": 1, "rotate_size": ROTATE, **config}
    return replay.finish(WalConfig(**how)), found, replay  # type: ignore[arg-type]


def gone_round(count: int = 9, **config: object) -> tuple[MemoryDisk, Log]:
    """Give a log whose active file was used before, with nothing in it, and the next number."""
    disk = MemoryDisk()
    log, _, _ = opened(disk, **config)
    for seq in range(count):
        log.append(bundle(seq))
        log.sync_all()
    log.truncate(log.end)
    for seq in range(count, count + 2):
        log.append(bundle(seq))
        log.sync_all()
        log.truncate(log.end)
    return disk, log


def bytes_of(disk: MemoryDisk, path: str = ACTIVE) -> bytearray:
    return bytearray(disk.map(path))


def with_bytes(disk: MemoryDisk, data: bytes) -> MemoryDisk:
    twin = MemoryDisk(disk.tree)
    file = twin.open(ACTIVE, writable=True)
    file.truncate(0)
    file.write(0, data)
    file.close()
    return twin
