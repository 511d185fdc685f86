"""No floor is believed that leaves no number for what comes next, and none is written."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from quiver.acks import Checkpoint, Floor
from quiver.acks.checkpoint import CHECKPOINT_LAYOUT, decode_checkpoint, encode_checkpoint
from quiver.acks.format import (
    decode_frame,
    decode_record,
    encode_header,
    encode_record,
    floor_fault,
)
from quiver.acks.records import Ack
from quiver.acks.replay import read_log
from quiver.errors import DamagedEntry, InputError
from quiver.payload import SEQ_MAX

MOST = SEQ_MAX + 1
TOO_HIGH = [(MOST + 1, 0), (0, MOST + 1), (2**64 - 1, 2**64 - 1)]


def forged(segment_seq: int, wal_seq: int, record_seq: int) -> bytes:
    """Write a floor as nobody does, with a checksum that is right."""
    body = encode_record(Floor(1, 2, 3), record_seq)[:-4]
    body = body[:24] + struct.pack("<QQ", segment_seq, wal_seq) + body[40:]
    return body + struct.pack("<I", crc32c(body))


def test_a_floor_is_at_most_one_above_the_greatest_number() -> None:
    assert MOST == 2**63
    for floor in (Floor(MOST, MOST, 3), Floor(MOST, 0, 3), Floor(0, MOST, 3)):
        assert decode_record([decode_frame(encode_record(floor, 5))]) == floor
        assert forged(floor.next_segment_seq, floor.next_wal_seq, 5) == encode_record(floor, 5)
    assert floor_fault(MOST, MOST) is None


@pytest.mark.parametrize("segment_seq, wal_seq", TOO_HIGH)
def test_one_above_that_is_neither_written_nor_read(segment_seq: int, wal_seq: int) -> None:
    words = f"above {MOST}: segment {segment_seq}, {wal_seq}"
    assert words in str(floor_fault(segment_seq, wal_seq))
    with pytest.raises(InputError, match=words):
        encode_record(Floor(segment_seq, wal_seq), 5)
    with pytest.raises(DamagedEntry, match=words):
        decode_record([decode_frame(forged(segment_seq, wal_seq, 5))])


@pytest.mark.parametrize("segment_seq, wal_seq", TOO_HIGH)
def test_in_a_log_it_is_damage_and_costs_only_itself(segment_seq: int, wal_seq: int) -> None:
    acks = [Ack(1, segment, 0, 1, 0) for segment in range(3)]
    data = encode_header(1) + encode_record(Floor(4, 5), 1) + encode_record(acks[0], 2)
    data += forged(segment_seq, wal_seq, 3) + forged(segment_seq, wal_seq, 4)
    data += encode_record(acks[1], 5) + encode_record(acks[2], 6)
    content = read_log(data)
    assert [error.offset for error in content.faults] == [64 + 2 * 64]
    assert "floor is above" in str(content.faults[0])
    assert [seq for seq, _ in content.entries] == [1, 2, 5, 6]
    assert content.kept == [(64, 64 + 2 * 64), (64 + 4 * 64, len(data))]


@pytest.mark.parametrize("segment_seq, wal_seq", TOO_HIGH)
def test_a_checkpoint_has_none_either(segment_seq: int, wal_seq: int) -> None:
    assert decode_checkpoint(encode_checkpoint(Checkpoint(7, Floor(MOST, MOST)))).floor == Floor(
        MOST, MOST
    )
    with pytest.raises(InputError, match="floor is above"):
        encode_checkpoint(Checkpoint(7, Floor(segment_seq, wal_seq)))
    data = bytearray(encode_checkpoint(Checkpoint(7, Floor(1, 2))))
    struct.pack_into("<QQ", data, 24, segment_seq, wal_seq)
    data[-4:] = struct.pack("<I", crc32c(bytes(data[:-4])))
    assert len(data) == CHECKPOINT_LAYOUT.size + 4
    with pytest.raises(DamagedEntry, match="floor is above"):
        decode_checkpoint(bytes(data))
