"""Reading a whole log from bytes: what counts, what is torn, what is damage."""

import pytest
from crc32c import crc32c

from quiver.acks import Ack, Register, Unregister
from quiver.acks.format import FRAME_SIZE, HEADER_SIZE, encode_header, encode_record
from quiver.acks.replay import read_log
from quiver.errors import DamagedEntry, TornEntry, VersionError

LONG = Register(2, "a-name-of-more-than-22-characters")
RECORDS = [Register(1, "spark"), Ack(1, 0, 0, 3, 5), LONG, Ack(2, 0, 0, 1, 6), Unregister(1, 7)]


def log(records=RECORDS, base=1):
    parts, seq = [encode_header(base)], base
    for record in records:
        parts.append(encode_record(record, seq))
        seq += len(parts[-1]) // FRAME_SIZE
    return b"".join(parts)


def at(frame):
    return HEADER_SIZE + frame * FRAME_SIZE


def test_a_sound_log_gives_every_record_with_the_number_of_its_last_frame():
    content = read_log(log(base=8))
    assert content.entries == list(zip([8, 9, 11, 12, 13], RECORDS, strict=True))
    assert (content.base_seq, content.last_seq, content.faults) == (8, 13, [])
    assert content.kept == [(HEADER_SIZE, content.end)]


def test_every_prefix_of_a_log_is_torn_and_never_damaged():
    data = log()
    for length in range(len(data)):
        content = read_log(data[:length])
        whole = max(length - HEADER_SIZE, 0) // FRAME_SIZE
        records = whole - (1 if whole >= 3 else 0)  # The third and fourth frame are one record.
        assert [record for _, record in content.entries] == RECORDS[:records]
        if length < HEADER_SIZE:
            assert [type(error) for error in content.faults] == [TornEntry]
        else:
            assert content.faults == []
            assert content.end <= length


def test_every_single_bit_flip_of_a_log_is_noticed_and_costs_one_record():
    data = log()
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        content = read_log(bytes(flipped))
        frame = (bit // 8 - HEADER_SIZE) // FRAME_SIZE
        lost = {-1: None, 0: 0, 1: 1, 2: 2, 3: 2, 4: 3, 5: 4}[frame]
        kept = [record for index, record in enumerate(RECORDS) if index != lost]
        assert content.faults
        assert [record for _, record in content.entries] == kept


def test_a_blank_tail_is_torn():
    content = read_log(log() + bytes(1000))
    assert (content.faults, content.end) == ([], len(log()))


def test_blank_frames_before_a_sound_one_are_reported_once():
    data = bytearray(log())
    data[at(0) : at(2)] = bytes(2 * FRAME_SIZE)
    content = read_log(bytes(data))
    assert [(type(e), e.offset) for e in content.faults] == [(TornEntry, at(0))]
    assert len(content.entries) == 3


def test_a_damaged_last_frame_is_damage_and_not_a_torn_tail():
    data = bytearray(log())
    data[at(5) + 20] ^= 1
    content = read_log(bytes(data) + bytes(30))
    assert [(type(e), e.offset) for e in content.faults] == [(DamagedEntry, at(5))]


def test_a_record_without_its_first_frame_is_damage():
    data = log()
    content = read_log(data[: at(2)] + data[at(3) :])
    assert [(type(e), e.offset) for e in content.faults] == [(DamagedEntry, at(2))]
    assert [r for _, r in content.entries] == [r for r in RECORDS if r is not LONG]


def test_a_record_without_its_last_frame_is_reported_when_a_sound_one_follows():
    data = log()
    content = read_log(data[: at(3)] + data[at(4) :])
    assert [(type(e), e.offset) for e in content.faults] == [(TornEntry, at(2))]
    assert [r for _, r in content.entries] == [r for r in RECORDS if r is not LONG]


@pytest.mark.parametrize("earlier", [0, 1, 4])
def test_a_frame_that_stands_there_again_does_not_count(earlier):
    data = log() + log()[at(earlier) : at(earlier + 1)] + encode_record(RECORDS[1], 50)
    content = read_log(data)
    assert [error.offset for error in content.faults] == [at(6)]
    assert content.entries[-1] == (50, RECORDS[1])
    assert len(content.entries) == len(RECORDS) + 1


def test_a_frame_below_the_base_does_not_count():
    data = encode_header(5) + encode_record(RECORDS[1], 4) + encode_record(RECORDS[1], 5)
    content = read_log(data)
    assert content.entries == [(5, RECORDS[1])]
    assert content.faults[0].expected == "above 4"


def test_numbers_may_have_holes():
    data = encode_header(1) + encode_record(RECORDS[0], 3) + encode_record(RECORDS[1], 900)
    content = read_log(data)
    assert (content.faults, content.last_seq) == ([], 900)


def test_frames_behind_a_damaged_header_count():
    content = read_log(bytes(HEADER_SIZE) + log()[HEADER_SIZE:])
    assert content.base_seq is None
    assert [record for _, record in content.entries] == RECORDS
    assert [error.offset for error in content.faults] == [0]


def test_records_of_unknown_kinds_are_skipped_but_kept():
    frame = bytearray(encode_record(Unregister(1), 1))
    frame[0] = 77

    frame[60:] = crc32c(bytes(frame[:60])).to_bytes(4, "little")
    content = read_log(encode_header(1) + bytes(frame) + encode_record(RECORDS[1], 2))
    assert (content.entries, content.faults) == ([(2, RECORDS[1])], [])
    assert content.kept == [(at(0), at(2))]


def test_a_newer_log_is_refused():
    header = bytearray(encode_header(1))
    header[8] = 2

    header[60:] = crc32c(bytes(header[:60])).to_bytes(4, "little")
    with pytest.raises(VersionError):
        read_log(bytes(header))
