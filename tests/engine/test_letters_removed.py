"""Dead letters that are removed: a power cut leaves each whole, or no letter at all."""

from __future__ import annotations

import pyarrow as pa
import pytest

import quiver
from quiver.engine.letters import Letter, list_letters, remove_letters
from quiver.testing import MemoryDisk, crash_images


@pytest.mark.parametrize("model", ["posix", "journaled"])
def test_after_any_power_cut_a_letter_is_whole_or_none(model) -> None:
    disk = MemoryDisk()
    with quiver.open("store", slots=["logs"], worker=False, disk=disk) as store:
        subscriber = store.subscribe("a")
        for number in range(3):
            store.append({"logs": pa.table({"n": [number]})})
        store.finalize()
        while (handle := subscriber.poll()) is not None:
            handle.reject("odd")
    letters = list(list_letters(disk, 0))
    assert len(letters) == 3
    before = len(disk.history.ops)
    remove_letters(disk, letters[:2])
    left = set()
    points = range(before, len(disk.history.ops) + 1)
    for image in crash_images(disk.history, model=model, budget=300, points=points):
        found = list(list_letters(image.disk(), 0))
        assert all(isinstance(each, Letter) for each in found), found
        assert letters[2] in found
        left.add(len(found))
    assert left == {1, 2, 3}
    assert list(list_letters(disk, 0)) == letters[2:]
