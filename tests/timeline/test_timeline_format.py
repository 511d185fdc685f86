"""The bytes of the files ``timeline`` and ``heartbeat``."""

from __future__ import annotations

from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from quiver.errors import DamagedEntry, DamageError, InputError, TornEntry, VersionError
from quiver.timeline import TIMELINE_BYTES, Saved, decode_timeline, encode_timeline

SAVED = st.builds(
    Saved,
    st.sampled_from(["clock", "writer", "caller"]),
    st.booleans(),
    st.integers(0, (1 << 64) - 1),
    st.integers(0, (1 << 63) - 1),
)
GOLDEN = Path(__file__).parents[1] / "golden/v1/timeline/timeline"
WRITTEN = Saved("caller", True, 7, 1_700_000_000_000_000_001)


def sealed(body: bytes) -> bytes:
    return body + crc32c(body).to_bytes(4, "little")


def test_the_golden_file_reads_as_it_was_written() -> None:
    assert decode_timeline(GOLDEN.read_bytes()) == WRITTEN
    assert encode_timeline(WRITTEN) == GOLDEN.read_bytes()


@given(SAVED)
def test_what_was_encoded_is_decoded(saved: Saved) -> None:
    data = encode_timeline(saved)
    assert len(data) == TIMELINE_BYTES
    assert decode_timeline(data) == saved


@given(SAVED, st.integers(0, TIMELINE_BYTES * 8 - 1))
def test_each_bit_is_guarded(saved: Saved, bit: int) -> None:
    data = bytearray(encode_timeline(saved))
    data[bit // 8] ^= 1 << bit % 8
    with pytest.raises((DamageError, VersionError)):
        decode_timeline(bytes(data))


@given(SAVED, st.integers(0, TIMELINE_BYTES - 1))
def test_a_torn_file_is_told(saved: Saved, size: int) -> None:
    with pytest.raises(TornEntry):
        decode_timeline(encode_timeline(saved)[:size])


@pytest.mark.parametrize(
    "place, byte, error",
    [
        (0, 0, DamagedEntry),
        (8, 2, VersionError),
        (10, 3, DamagedEntry),
        (11, 2, DamagedEntry),
        (27, 0x80, DamagedEntry),
    ],
    ids=["magic", "version", "rule", "closed", "below 1970"],
)
def test_what_no_writer_writes_is_refused(place: int, byte: int, error: type[Exception]) -> None:
    body = bytearray(encode_timeline(WRITTEN)[:-4])
    body[place] = byte
    with pytest.raises(error):
        decode_timeline(sealed(bytes(body)))


def test_a_file_that_goes_on_is_refused() -> None:
    with pytest.raises(DamagedEntry):
        decode_timeline(encode_timeline(WRITTEN) + b"\0")


@pytest.mark.parametrize(
    "saved",
    [Saved("soon", False, 0, 0), Saved("writer", False, 0, -1), Saved("writer", False, 1 << 64, 0)],
    ids=["rule", "time", "number"],
)
def test_what_a_reader_would_refuse_is_not_written(saved: Saved) -> None:
    with pytest.raises(InputError):
        encode_timeline(saved)
