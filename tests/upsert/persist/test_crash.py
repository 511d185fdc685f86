"""A collection in a folder after a power cut: what was acknowledged, or one change more."""

from __future__ import annotations

import pytest
from persist_kit import DEFINITION, Rig

from quiver.errors import MissingError
from quiver.ship.objects import FolderBucket
from quiver.testing import MemoryDisk, crash_images
from quiver.upsert.persist import Collection, close_all, writing
from quiver.upsert.rows import Definition

pytestmark = pytest.mark.slow

TWO = Definition(DEFINITION.key, DEFINITION.value, 2)


@pytest.mark.parametrize("batch_bytes", [writing.BATCH_BYTES, 64], ids=["whole", "in pieces"])
@pytest.mark.parametrize("model", ["posix", "ordered"])
def test_after_a_power_cut_there_is_what_was_appended_or_one_epoch_more(
    model, batch_bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "BATCH_BYTES", batch_bytes)
    disk = MemoryDisk()
    rig = Rig(FolderBucket("/collection", disk=disk), TWO)
    promised = [(len(disk.history.ops), 1)]
    for number in range(3):
        rig.apply({key: {"text": str(number), "n": key} for key in range(number, number + 4)})
        promised.append((len(disk.history.ops), rig.snapshot.upper))
    rig.fold(0)
    rig.apply({1: None, 2: None})
    promised.append((len(disk.history.ops), rig.snapshot.upper))
    writers = rig.snapshot.manifest.writer
    seen = set()
    for image in crash_images(disk.history, model=model, budget=600):
        close_all()
        store = FolderBucket("/collection", disk=image.disk())
        least = max((upper for ops, upper in promised if ops <= image.point), default=0)
        try:
            collection = Collection.open(store)
        except MissingError:
            assert least == 0
            continue
        upper = collection.snapshot().upper
        assert least <= upper <= least + 1
        after = object.__new__(Rig)
        after.__dict__ |= vars(rig) | {"store": store, "collection": collection}
        for epoch in range(upper):
            assert after.state(epoch) == rig.states[epoch]
        writer = collection.writer()
        assert writer.fence <= writers + 1
        assert writer.append([], upper).snapshot.upper == upper + 1
        seen.add((least, upper))
    assert {(1, 1), (1, 2), (2, 2), (3, 4), (4, 5)} <= seen
