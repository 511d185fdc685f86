"""A WAL folder on a real disk that can be opened again and again, and damaged in between."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from quiver.config import WalConfig
from quiver.disk import Disk, LocalDisk
from quiver.payload import EncodedBundle, Payload
from quiver.wal import Log, Place, Replay, entry_bytes
from quiver.wal.format import HEADER_BYTES, encode_checkpoint

DIGEST = b"layout of a test"
LIMIT = 1 << 20
CHECKPOINT_BYTES = len(encode_checkpoint(0, Place(0, 0)))
"""With which every file but the first begins, behind its header."""
SIZE = entry_bytes((Payload(0, 0, bytes(32), 1, bytes(100)),))

Damage = Callable[[bytearray], None]


def bundle(seq: int, size: int = 100) -> EncodedBundle:
    data = bytes((seq + i) % 251 for i in range(size))
    return EncodedBundle(seq, 1000 + seq, (Payload(0, 0, bytes(32), 1, data),))


def replay_of(disk: Disk, covered: int | None = None, *, hint: Place | None = None) -> Replay:
    """Begin to read the log in a folder of a disk."""
    return Replay(
        disk,
        "wal",
        digest=DIGEST,
        entry_bytes_max=LIMIT,
        covered_seq=covered,
        hint=hint,
        quarantine="quarantine",
    )


class Folder:
    """A WAL folder that can be opened again and again, as after crashes."""

    def __init__(self, root: Path) -> None:
        self.disk = LocalDisk(root, create=True)
        self.root = root
        self.replay: Replay | None = None

    def open(
        self, covered: int | None = None, *, hint: Place | None = None, **config: int
    ) -> tuple[Log, list[int]]:
        self.replay = replay_of(self.disk, covered, hint=hint)
        found = []
        for item, _ in self.replay:
            assert bytes(item.payloads[0].data) == bundle(item.wal_seq).payloads[0].data
            found.append(item.wal_seq)
        return self.replay.finish(WalConfig(**config)), found

    def fill(self, count: int, **config: int) -> list[Place]:
        log, _ = self.open(**config)
        places = [log.append(bundle(seq)) for seq in range(count)]
        log.sync_all()
        log.close()
        return places

    def damage(self, act: Damage, name: str = "quiver.wal") -> None:
        path = self.root / "wal" / name
        data = bytearray(path.read_bytes())
        act(data)
        path.write_bytes(data)

    def names(self) -> list[str]:
        return sorted(p.name for p in (self.root / "wal").iterdir())

    def quarantine(self) -> list[str]:
        folder = self.root / "quarantine"
        return sorted(p.name for p in folder.iterdir()) if folder.exists() else []


def flip(offset: int) -> Damage:
    def act(data: bytearray) -> None:
        data[offset] ^= 0xFF

    return act


def cut(length: int) -> Damage:
    def act(data: bytearray) -> None:
        del data[length:]

    return act


def append(extra: bytes) -> Damage:
    def act(data: bytearray) -> None:
        data += extra

    return act


def start_of(seq: int, *, later: bool = False) -> int:
    """Where the entry of this index begins in the first file, or in a ``later`` one."""
    return HEADER_BYTES + later * CHECKPOINT_BYTES + seq * SIZE
