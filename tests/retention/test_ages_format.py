"""The bytes of the file ``ages``."""

from __future__ import annotations

from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from quiver.errors import DamageError, InputError, VersionError
from quiver.retention import Mark, Saved
from quiver.retention.format import (
    AGES_BYTES_MAX,
    AGES_LAYOUT,
    MARKS_MAX,
    decode_ages,
    encode_ages,
)

I64 = st.integers(-(1 << 63), (1 << 63) - 1)
TIMES = st.integers(-(1 << 62), 1 << 62)
MARKS = st.lists(st.tuples(st.integers(0, (1 << 64) - 1), TIMES), max_size=20).map(
    lambda pairs: tuple(
        Mark(*pair)
        for pair in zip(sorted(a for a, _ in pairs), sorted(b for _, b in pairs), strict=True)
    )
)
SAVED = st.builds(Saved, TIMES, I64, MARKS)
GOLDEN = bytes.fromhex(
    "51554956455200470100000001000000"
    "0500000000000000060000000000000007000000000000000800000000000000"
)


def sealed(body: bytes) -> bytes:
    return body + crc32c(body).to_bytes(4, "little")


def test_the_golden_file_reads_as_it_was_written():
    data = (Path(__file__).parents[1] / "golden/v1/retention/ages").read_bytes()
    marks = Mark(0, -5), Mark(3, 3_600_000_000_000), Mark(1 << 40, 7_100_000_000_000)
    saved = Saved(7_200_000_000_000, 1_700_000_000_000_000_000, marks)
    assert decode_ages(data) == saved
    assert encode_ages(saved) == data


def test_golden_bytes():
    assert encode_ages(Saved(5, 6, (Mark(7, 8),))) == sealed(GOLDEN)


@given(SAVED)
def test_what_was_encoded_is_decoded(saved):
    data = encode_ages(saved)
    assert len(data) <= AGES_BYTES_MAX
    assert decode_ages(data) == saved


@given(SAVED, st.data())
def test_any_other_byte_is_noticed(saved, data):
    raw = bytearray(encode_ages(saved))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(DamageError):
        decode_ages(bytes(raw))


@given(SAVED, st.data())
def test_a_file_that_was_cut_is_noticed(saved, data):
    raw = encode_ages(saved)
    with pytest.raises(DamageError):
        decode_ages(raw[: data.draw(st.integers(0, len(raw) - 1))])


@given(st.binary(max_size=200))
def test_garbage_with_a_good_checksum_is_refused(garbage):
    with pytest.raises(DamageError):
        decode_ages(sealed(garbage))


def test_another_version_is_refused():
    body = bytearray(GOLDEN)
    body[8] = 2
    with pytest.raises(VersionError, match="version 2"):
        decode_ages(sealed(bytes(body)))


@pytest.mark.parametrize("count", [0, 2, MARKS_MAX + 1, 0xFFFFFFFF])
def test_another_number_of_marks_is_refused(count):
    body = GOLDEN[:12] + count.to_bytes(4, "little") + GOLDEN[16:]
    with pytest.raises(DamageError, match="number of marks"):
        decode_ages(sealed(body))


@pytest.mark.parametrize("marks", [((2, 1), (1, 2)), ((1, 2), (2, 1))])
def test_marks_out_of_order_are_refused(marks):
    with pytest.raises(InputError):
        encode_ages(Saved(0, 0, tuple(Mark(*mark) for mark in marks)))
    head = AGES_LAYOUT.pack(GOLDEN[:8], 1, 0, 2, 0, 0)
    body = head + b"".join(
        a.to_bytes(8, "little") + b.to_bytes(8, "little", signed=True) for a, b in marks
    )
    with pytest.raises(DamageError, match="order"):
        decode_ages(sealed(body))


def test_what_does_not_fit_is_refused():
    with pytest.raises(InputError, match="out of range"):
        encode_ages(Saved((1 << 62) + 1, 0))
    with pytest.raises(InputError):
        encode_ages(Saved(0, 1 << 63))
    body = GOLDEN[:16] + b"\xff" * 7 + b"\x7f" + GOLDEN[24:]
    with pytest.raises(DamageError, match="out of range"):
        decode_ages(sealed(body))
    with pytest.raises(InputError):
        encode_ages(Saved(0, 0, tuple(Mark(n, n) for n in range(MARKS_MAX + 1))))
