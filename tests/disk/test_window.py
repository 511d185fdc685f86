"""A window gives the bytes of its file, wherever it was before, and reads few of them twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.disk import LocalDisk, PassingWindow, Window, window
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


@pytest.mark.parametrize("real", [True, False], ids=["real", "in memory"])
@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 90)), min_size=1))
def test_what_passes_by_is_what_the_file_has_there_until_the_next_look(
    tmp_path_factory, real, places
):
    disk = LocalDisk(tmp_path_factory.mktemp("passing")) if real else MemoryDisk()
    file = disk.create("file")
    file.write(0, DATA)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window, "PASSING_BYTES", 32)
        seen = PassingWindow(file)
        for offset, length in places:
            view, inside = seen.view(offset, length)
            assert bytes(view[inside : inside + length]) == DATA[offset : offset + length]
            there = min(length, 200 - offset)
            assert seen.copied(offset, there) == DATA[offset : offset + there]
            assert seen.copied(offset, 201) is None
    file.close()


def test_a_window_that_cannot_be_read_shows_nothing_and_may_be_asked_again():
    file = opened()
    seen = PassingWindow(file)
    seen.view(0, 10)
    refuse = True

    class Refusing:
        size = file.size

        def read(self, offset, length):
            if refuse:
                raise OSError
            return file.read(offset, length)

    seen = PassingWindow(Refusing())
    with pytest.raises(OSError):
        seen.view(0, 10)
    assert seen.copied(0, 1) is None
    refuse = False
    view, inside = seen.view(0, 10)
    assert bytes(view[inside : inside + 10]) == DATA[:10]
