"""The bytes of a copy's state, of the front of its log, of a floor."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from quiver.chain.copies.format import (
    CopyState,
    Mark,
    decode_floor,
    decode_front,
    decode_generation,
    decode_mark,
    decode_state,
    encode_floor,
    encode_front,
    encode_generation,
    encode_mark,
    encode_state,
)
from quiver.chain.peers import BlockName, Finished
from quiver.chain.sealing import Sealed
from quiver.errors import DamageError, InputError, TornEntry, VersionError

GOLDEN = Path(__file__).parents[1] / "golden" / "v1" / "copies"
OPEN = CopyState(BlockName("core_0", 7), 5, bytes(range(16)), ("a", "ö"), '[{"id":0}]')
CUT = OPEN._replace(sealed=Sealed(900, 41, -5, 12, ()))
SETTLED = CUT._replace(finished=Finished(30, bytes(range(32)), 4_000), is_settled=True)
FRONT = 7, bytes(range(16))


def repaired(data: bytes) -> bytes:
    return data[:-4] + struct.pack("<I", crc32c(data[:-4]))


def test_golden_bytes_are_read_and_written_as_ever():
    for name, state in (("open", OPEN), ("cut", CUT), ("settled", SETTLED)):
        golden = (GOLDEN / name).read_bytes()
        assert decode_state(golden) == state
        assert encode_state(state) == golden
    assert encode_front(*FRONT, version=1) == (GOLDEN / "front").read_bytes()
    assert encode_front(*FRONT) == (GOLDEN / "front-2").read_bytes()
    for name in ("front", "front-2"):
        decode_front((GOLDEN / name).read_bytes(), *FRONT)
    assert encode_mark(Mark(3, 4_711)) == (GOLDEN / "mark").read_bytes()
    assert decode_mark((GOLDEN / "mark").read_bytes()) == Mark(3, 4_711)
    assert decode_floor((GOLDEN / "floor").read_bytes()) == 8
    assert encode_floor(8) == (GOLDEN / "floor").read_bytes()
    assert decode_generation((GOLDEN / "generation").read_bytes()) == 9
    assert encode_generation(9) == (GOLDEN / "generation").read_bytes()


@settings(max_examples=40)
@given(
    st.integers(0, (1 << 63) - 1),
    st.lists(st.text(min_size=1, max_size=60), max_size=16, unique=True),
    st.text(max_size=200),
    st.booleans(),
)
def test_any_state_comes_back(epoch, chain, layout, is_cut):
    state = (CUT if is_cut else OPEN)._replace(epoch=epoch, chain=tuple(chain), layout=layout)
    assert decode_state(encode_state(state)) == state


@pytest.mark.parametrize(
    ("data", "decode"),
    [
        (encode_state(SETTLED), decode_state),
        (encode_floor(8), decode_floor),
        (encode_generation(9), decode_generation),
        (encode_front(*FRONT), lambda data: decode_front(data, *FRONT)),
    ],
    ids=["state", "floor", "generation", "front"],
)
def test_any_byte_that_changes_or_is_missing_is_found(data, decode):
    for at in range(len(data)):
        with pytest.raises(DamageError):
            decode(data[:at])
        with pytest.raises(DamageError):
            decode(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    newer = bytearray(data)
    newer[8] = 3
    with pytest.raises(VersionError, match="version 3"):
        decode(repaired(bytes(newer)))


def test_a_mark_that_is_half_written_is_none():
    data = encode_mark(Mark(3, 4_711))
    for at in range(len(data)):
        assert decode_mark(data[:at]) is None
        assert decode_mark(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]) is None
    assert decode_mark(bytes(20)) is None
    assert decode_mark(encode_mark(Mark(0, 1 << 63))) is None


IMPOSSIBLE = {
    "no name": {"name": BlockName("", 1)},
    "a number below 0": {"name": BlockName("a", -1)},
    "an epoch too large": {"epoch": 1 << 63},
    "a short boot": {"boot": b"1"},
    "one location twice": {"chain": ("a", "a")},
    "a location without a name": {"chain": ("",)},
    "too many locations": {"chain": tuple("abcdefghijklmnopq")},
    "a layout too long": {"layout": "x" * 65_537},
    "cut to nothing": {"sealed": Sealed(0, -1, 0, 0, ())},
    "cut to an end before its start": {"sealed": Sealed(1, 1, 5, 4, ())},
    "cut to a sequence below -1": {"sealed": Sealed(1, -2, 4, 5, ())},
    "a short digest": {"finished": Finished(1, b"1", 1)},
    "a segment of no bytes": {"finished": Finished(1, bytes(32), 0)},
    "settled without a segment": {"finished": None},
    "a text too long": {"name": BlockName("x" * 256, 1)},
    "a text that is none": {"chain": ("\ud800",)},
}


@pytest.mark.parametrize("change", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_what_may_not_be_is_not_written(change):
    with pytest.raises(InputError):
        encode_state(SETTLED._replace(**change))
    with pytest.raises(InputError):
        encode_floor(-1)


def test_what_may_not_be_is_not_read():
    for place, byte in (
        (12, 1),
        (16 + 32, 0xFF),
        (16 + 34, 1),
        (16 + 33, 9),
        (16 + 120, 0xFF),
        (16 + 121, 0xFF),
    ):
        data = bytearray(encode_state(SETTLED))
        data[place] = byte
        with pytest.raises(DamageError):
            decode_state(repaired(bytes(data)))
    with pytest.raises(DamageError, match="impossible"):
        decode_floor(repaired(encode_floor(8)[:16] + b"\xff" * 8 + bytes(4)))
    with pytest.raises(TornEntry):
        decode_state(encode_state(OPEN) + b"\0")
