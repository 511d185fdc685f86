"""A window gives the bytes of its file, wherever it was before, and reads few of them twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.disk import Window, window
from quiver.testing import MemoryDisk

DATA = bytes(range(200))


def opened():
    disk = MemoryDisk()
    file = disk.create("file")
    file.write(0, DATA)
    return file


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 90)), min_size=1))
def test_what_is_viewed_is_what_the_file_has_there_and_stays_so(places):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window, "WINDOW_BYTES", 32)
        seen = Window(opened())
        views = [(offset, length, *seen.view(offset, length)) for offset, length in places]
    assert seen.size == len(DATA)
    for offset, length, view, inside in views:
        assert bytes(view[inside : inside + length]) == DATA[offset : offset + length]


def test_on_the_way_through_a_file_each_byte_is_read_about_once(monkeypatch):
    monkeypatch.setattr(window, "WINDOW_BYTES", 32)
    file = opened()
    reads = []
    read = file.read

    class Counting:
        size = file.size

        def read(self, offset, length):
            reads.append(length)
            return read(offset, length)

    seen = Window(Counting())
    for offset in range(len(DATA)):
        seen.view(offset, 1)
    assert sum(reads) == len(DATA)
    assert len(reads) == -(-len(DATA) // 32)
    seen.view(100, 90)
    assert reads[-1] == 90
