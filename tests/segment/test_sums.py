from __future__ import annotations

import zlib

import crc32c
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quiver.segment.body import Body
from quiver.segment.layout import Checks, lay_out
from quiver.segment.pages import page_checksums
from quiver.segment.sums import BYTES_AT_ONCE, CRC32, CRC32C, Piece, join_sums, sum_up

PIECES = st.lists(st.binary(max_size=40), max_size=12)


@given(PIECES, st.integers(0, 3 * BYTES_AT_ONCE))
@example([], 0)
@example([b""], 0)
def test_sums_of_pieces_make_the_one_of_the_whole(pieces, zeros):
    pieces = [*pieces, bytes(zeros), *pieces]
    whole, lengths = b"".join(pieces), [len(piece) for piece in pieces]
    sums = [sum_up(piece) for piece in pieces]
    assert join_sums(CRC32, [found.crc32 for found in sums], lengths) == zlib.crc32(whole)
    assert join_sums(CRC32C, [found.crc32c for found in sums], lengths) == crc32c.crc32c(whole)


def test_lengths_of_terabytes_are_shifted_as_zeros_would_be():
    once = join_sums(CRC32, [zlib.crc32(b"a"), 0], [1, 1 << 40])
    again = once
    # Zeros are not nothing to a check that begins with ones: two halves must make the same.
    for _ in range(2):
        again = join_sums(CRC32, [again, 0], [1, 1 << 40])
    assert again == join_sums(CRC32, [zlib.crc32(b"a"), 0, 0, 0], [1, 1 << 40, 1 << 40, 1 << 40])


@given(st.lists(st.tuples(PIECES, st.booleans()), max_size=4))
@pytest.mark.parametrize("large", [0, BYTES_AT_ONCE + 1])
def test_a_layout_has_the_same_checksums_whoever_computed_them(large, streams):
    def pieces_of(*, known: bool) -> list[list[Piece]]:
        return [
            [
                Piece(data, sum_up(data) if known and first else None)
                for data in [*pieces, b"x" * large]
            ]
            for pieces, first in streams
        ]

    found = []
    for known in (False, True):
        placed = lay_out(map(Body, pieces_of(known=known)))
        checks = Checks()
        for stream in placed:
            checks.add_streams(stream)
        found.append((checks.crc32, checks.size, checks.streams))
    assert found[0] == found[1]
    image = b""
    for stream, check in zip(placed, found[0][2], strict=True):
        data = b"".join(piece.data for piece in stream.body.pieces)
        image += stream.gap
        assert (check.offset, check.length) == (len(image), len(data))
        assert check.pages == page_checksums(memoryview(data), check.offset)
        assert check.crc32c == crc32c.crc32c(data)
        image += data
    assert found[0][:2] == (zlib.crc32(image), len(image))
