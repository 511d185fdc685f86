"""The bytes of a batch: the reference's example, scenarios 1 to 5 of the reference, damage."""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from quiver.errors import (
    CapacityError,
    DamagedEntry,
    DamageError,
    InputError,
    TornEntry,
    VersionError,
)
from quiver.ship.batch import decode_batch, encode_batch
from quiver.ship.batch import format as layout

GOLDEN = Path(__file__).parents[2] / "golden" / "v1" / "batch"
EXAMPLE = bytes.fromhex("0100000061 020000006263 00 02000000 0100")


def encoded(records, compression="none") -> bytes:
    return b"".join(bytes(part) for part in encode_batch(records, compression=compression).parts)


def test_the_example_of_the_reference_is_written_and_read() -> None:
    assert encoded([b"a", b"bc"]) == EXAMPLE
    assert decode_batch(EXAMPLE) == [b"a", b"bc"]


@pytest.mark.parametrize(
    "name, records, compression",
    [
        ("stored.batch", [b"a", b"bc"], "none"),
        ("empty.batch", [], "none"),
        ("zstd.batch", [b"abc" * 100, b"", b"abc" * 50], "zstd"),
    ],
)
def test_the_golden_files_are_read_and_written_as_they_are(name, records, compression) -> None:
    data = (GOLDEN / name).read_bytes()
    assert decode_batch(data) == records
    if compression == "none":  # What zstd makes of it may change with its release.
        assert encoded(records) == data


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize(
    "records",
    [[b"one", b"two", b"three"], [], [b""], [b"%d" % n for n in range(1000)]],
    ids=["several", "none", "one empty", "a thousand"],
)
def test_scenario_1_records_come_back(records, compression) -> None:
    batch = encode_batch(records, compression=compression)
    data = b"".join(bytes(part) for part in batch.parts)
    assert decode_batch(data) == records
    assert (batch.byte_count, batch.crc32c) == (len(data), crc32c(data))


def test_scenario_1_an_empty_batch_has_seven_bytes_and_with_zstd_a_frame() -> None:
    assert len(encoded([])) == 7
    assert len(encoded([], "zstd")) == 9 + 7


def test_scenario_2_what_repeats_itself_is_smaller_with_zstd() -> None:
    records = [b"the same again " * 100] * 10
    assert len(encoded(records, "zstd")) < len(encoded(records)) // 10


def changed(data: bytes, **fields: int) -> bytes:
    compression, count, version = struct.unpack("<BIH", data[-7:])
    footer = {"compression": compression, "count": count, "version": version} | fields
    return data[:-7] + struct.pack("<BIH", *footer.values())


@pytest.mark.parametrize("compression", [2, 3, 255])
def test_scenario_3_an_unknown_compression_is_refused(compression) -> None:
    with pytest.raises(DamagedEntry, match="compression"):
        decode_batch(changed(EXAMPLE, compression=compression))


@pytest.mark.parametrize("version", [0, 2, 99])
def test_scenario_4_an_unknown_version_is_refused(version) -> None:
    with pytest.raises(VersionError, match=f"version {version}"):
        decode_batch(changed(EXAMPLE, version=version))


def test_scenario_5_a_cut_record_is_refused() -> None:
    for cut in range(len(EXAMPLE) - 7):
        with pytest.raises(TornEntry):
            decode_batch(EXAMPLE[:cut] + EXAMPLE[-7:])
    for size in range(7):
        with pytest.raises(TornEntry, match="too short"):
            decode_batch(EXAMPLE[:size])


def test_bytes_behind_the_last_record_are_refused() -> None:
    with pytest.raises(DamagedEntry, match="more than its records") as found:
        decode_batch(changed(EXAMPLE, count=1))
    assert found.value.offset == 5


def test_a_count_that_lies_reserves_nothing() -> None:
    with pytest.raises(CapacityError, match="4,294,967,295 records"):
        decode_batch(changed(EXAMPLE, count=(1 << 32) - 1))
    with pytest.raises(TornEntry, match="no room for its records"):
        decode_batch(changed(EXAMPLE, count=1 << 24))
    with pytest.raises(CapacityError, match="2 records, the most is 1"):
        decode_batch(EXAMPLE, records_max=1)


def test_a_block_that_grows_too_large_is_refused_before_it_is_held() -> None:
    data = encoded([bytes(64 << 20)], "zstd")
    assert len(data) < 1 << 14
    before = pa.total_allocated_bytes()
    with pytest.raises(CapacityError, match="more than 3,000,000"):
        decode_batch(data, block_bytes_max=3_000_000)
    assert pa.total_allocated_bytes() - before < 4_000_000
    assert decode_batch(encoded([bytes(996)], "zstd"), block_bytes_max=1000) == [bytes(996)]


@pytest.mark.parametrize("block", [b"", b"no frame of zstd"])
def test_what_is_no_frame_is_damage(block) -> None:
    with pytest.raises(DamagedEntry):
        decode_batch(block + struct.pack("<BIH", 1, 0, 1))


def test_a_frame_that_is_cut_or_followed_by_something_is_damage() -> None:
    data = encoded([b"some", b"records"], "zstd")
    for cut in range(1, len(data) - 7):
        with pytest.raises(DamagedEntry):
            decode_batch(data[:-7][:-cut] + data[-7:])
    with pytest.raises(DamagedEntry):
        decode_batch(data[:-7] + b"more" + data[-7:])


def test_each_flipped_bit_is_met_with_an_error_of_ours_or_told_by_the_checksum() -> None:
    for data in (EXAMPLE, (GOLDEN / "zstd.batch").read_bytes()):
        for bit in range(8 * len(data)):
            mutant = bytearray(data)
            mutant[bit // 8] ^= 1 << bit % 8
            assert crc32c(mutant) != crc32c(data)
            with suppress(DamageError, VersionError, CapacityError):
                decode_batch(bytes(mutant), block_bytes_max=1 << 16)


@given(st.lists(st.binary(max_size=40), max_size=20), st.sampled_from(["none", "zstd"]))
def test_any_records_come_back(records, compression) -> None:
    assert decode_batch(encoded(records, compression)) == records


@given(st.binary(max_size=60))
def test_any_bytes_are_records_or_an_error(data) -> None:
    try:
        records = decode_batch(data)
    except (DamageError, VersionError):
        return
    assert sum(4 + len(record) for record in records) == len(data) - 7 or data[-7] == 1


def test_records_may_be_views_and_large_ones_are_not_copied() -> None:
    record = bytearray(b"0123456789" * 10_000)
    batch = encode_batch([memoryview(record), pa.py_buffer(b"xy").to_pybytes()])
    assert any(part.obj is record for part in batch.parts if isinstance(part, memoryview))
    data = b"".join(batch.parts)
    first, _ = decode_batch(data)
    assert first.obj is data


@pytest.mark.parametrize("sizes", [[3] * 50_000, [40_000, 1, 1, 50_000, 2], [1 << 20, 5], []])
def test_small_records_are_joined_in_their_order(sizes) -> None:
    records = [bytes([index % 251]) * size for index, size in enumerate(sizes)]
    batch = encode_batch(records)
    data = b"".join(bytes(part) for part in batch.parts)
    assert [bytes(record) for record in decode_batch(data)] == records
    assert (batch.byte_count, batch.crc32c) == (len(data), crc32c(data))
    assert len(batch.parts) < 8


def test_what_cannot_be_written_is_refused(monkeypatch) -> None:
    with pytest.raises(InputError, match="no compression"):
        encode_batch([b""], compression="lz4")
    monkeypatch.setattr(layout, "RECORD_BYTES_MAX", 3)
    with pytest.raises(InputError, match="record 1 has 4 bytes"):
        encode_batch([b"abc", b"abcd"])
    monkeypatch.setattr(layout, "COUNT_MAX", 1)
    with pytest.raises(InputError, match="2 records"):
        encode_batch([b"", b""])
