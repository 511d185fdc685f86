"""A glance gives what a reader gives, and what is out of the ordinary it leaves to the reader."""

from __future__ import annotations

import sys

import pyarrow as pa
import pytest
from upstream_kit import arrow_file, assemble

from quiver.errors import DamageError, MissingError
from quiver.segment import SegmentReader, glance
from quiver.segment.catalog import TRAILER_BYTES

module = sys.modules[glance.__module__]


def by_reader(disk, path):
    with SegmentReader.open(disk, path) as reader:
        return reader.footer, reader.streams, reader.trailer.crc32


def test_a_glance_says_what_a_reader_says_and_maps_nothing(shelf, numbers, monkeypatch):
    infos = [shelf.write({0: numbers(*range(seq + 1))}, seq=seq) for seq in (1, 2, 30, 31)]
    expected = [by_reader(shelf.disk, info.path) for info in infos]
    monkeypatch.setattr(type(shelf.disk), "map", None)
    for info, (footer, streams, checksum) in zip(infos, expected, strict=True):
        seen = glance(shelf.disk, info.path)
        assert seen is not None
        assert (seen.footer, seen.streams, seen.checksum) == (footer, streams, checksum)
        assert seen.about.segment_seq == info.segment_seq


def test_a_directory_far_from_the_end_is_read_by_itself(shelf, numbers):
    info = shelf.write(*({0: numbers(n)} for n in range(2_000)))
    footer, streams, _ = by_reader(shelf.disk, info.path)
    assert info.file_bytes - footer.directory_offset > 1 << 15
    assert glance(shelf.disk, info.path).streams == streams


def test_each_changed_byte_of_the_end_is_left_to_the_reader(shelf, numbers):
    info = shelf.write({0: numbers(1, 2)}, seq=7)
    whole = shelf.load(info)
    footer = by_reader(shelf.disk, info.path)[0]
    tables = range(footer.directory_offset, footer.directory_offset + footer.directory_length)
    end = range(len(whole) - TRAILER_BYTES - 126, len(whole) - 4)  # All but the file's checksum.
    for place in (*tables, *end):
        changed = bytearray(whole)
        changed[place] ^= 1 << place % 8
        path = shelf.save(bytes(changed))
        assert glance(shelf.disk, path) is None, place
        with pytest.raises(DamageError):
            SegmentReader.open(shelf.disk, path)


@pytest.mark.parametrize("length", [0, 1, 49, 50, 1_000])
def test_what_is_cut_off_is_left_to_the_reader(shelf, numbers, length):
    whole = shelf.load(shelf.write({0: numbers(1)}))
    assert glance(shelf.disk, shelf.save(whole[:length])) is None


def test_another_writers_file_and_another_segments_name_are_left_to_the_reader(shelf, numbers):
    batch = pa.record_batch({"n": [1]})
    stream = (0, arrow_file(batch.schema, batch), 1, 1)
    assert glance(shelf.disk, shelf.save(assemble([stream], [[(0, 0, 0)]]))) is None
    mine = shelf.load(shelf.write({0: numbers(1)}, seq=8))
    assert glance(shelf.disk, shelf.save(mine, "0000000000000009.qseg")) is None
    assert glance(shelf.disk, shelf.save(mine, "kept")) is not None


def test_a_file_that_is_gone_is_missing(shelf):
    with pytest.raises(MissingError):
        glance(shelf.disk, "0000000000000001.qseg")


@pytest.fixture
def decoded(monkeypatch) -> list[bytes]:
    """What was decoded, by a memory of its own."""
    found: list[bytes] = []

    def note(data: bytes, _footer: object, _end: int) -> tuple[str]:
        found.append(data)
        return ("decoded",)

    monkeypatch.setattr(module, "_decoded", note)
    return found


def test_hundreds_of_directories_are_decoded_once_though_they_come_in_turn(decoded):
    memory = module._Directories()
    for _ in range(3):
        for number in range(600):
            memory.read(number.to_bytes(2, "big") * 1000, None, number)
    assert len(decoded) == 600


@pytest.mark.parametrize(("count", "size"), [(5000, 10), (300, 100_000)])
def test_there_is_an_end_to_the_directories_that_are_kept(decoded, count, size):
    memory = module._Directories()
    for number in range(count):
        memory.read(number.to_bytes(2, "big") * (size // 2), None, number)
        assert len(memory._known) <= module._KEPT
        held = sum(len(data) for data, *_ in memory._known)
        assert held <= module._KEPT_BYTES * (1 + 1 / module._SLACK) + size
    newest = decoded[-1]
    memory.read(newest, None, count - 1)
    assert len(decoded) == count  # The last ones stay.


def test_one_that_is_larger_than_all_of_them_together_is_not_kept(decoded):
    memory = module._Directories()
    large = bytes(module._KEPT_BYTES + 1)
    memory.read(large, None, 0)
    memory.read(large, None, 0)
    assert len(decoded) == 2
    assert not memory._known
