"""The borders of the segment format: each limit met exactly, each error with all that it knows."""

import dataclasses
import struct
import zlib

import pytest
from crc32c import crc32c

from quiver.errors import DamagedEntry, InputError, TornEntry, VersionError
from quiver.segment import format as f

EXTENSION = f.Extension(7, 100, 199, 3, 4096, 10, 20, 0xAAAA_AAAA, 0xBBBB_BBBB)
FOOTER = f.Footer(2, 100, 640, 300, 940, 200, EXTENSION)
PLAIN = dataclasses.replace(FOOTER, extension=None)
START = 1140
U32, U64, I64 = 2**32 - 1, 2**64 - 1, 2**63 - 1


def footer_of(footer):
    return f.encode_tail(footer, 0)[: -f.TRAILER_BYTES]


def decoded(footer, offset=START):
    return f.decode_footer(footer_of(footer), offset=offset)


def trailer(length, crc32=0):
    return struct.pack("<I8sI", length, f.MAGIC, crc32)


def changed(**values):
    return dataclasses.replace(PLAIN, **values)


def test_the_limits_are_those_on_the_page():
    assert (f.STREAMS_MAX, f.BUNDLES_MAX, f.CHUNKS_MAX) == (100_000, 10_000_000, 10_000_000)
    assert (f.LENGTH_MAX, f.FOOTER_BYTES_MAX, f.ALIGNMENT) == (2**32 - 1, 65_536, 64)


@pytest.mark.parametrize(
    "value, field", [(FOOTER, "bundle_count"), (EXTENSION, "segment_seq")], ids=["footer", "ours"]
)
def test_values_neither_change_nor_gain_fields(value, field):
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, field, 3)
    assert not hasattr(value, "__dict__")


def test_a_footer_and_its_trailer_are_laid_out_as_on_the_page():
    body = struct.pack("<HIIQIQI", 1, 2, 100, 640, 300, 940, 200)
    seal = struct.pack("<I8s", 34, b"QUIVER\0S")
    tail = body + seal + struct.pack("<I", zlib.crc32(body + seal))
    assert f.encode_tail(PLAIN, 0) == tail
    body += b"QVX1" + struct.pack("<QQQQQqqII", *dataclasses.astuple(EXTENSION)[:9])
    body += struct.pack("<I", crc32c(body))
    assert footer_of(FOOTER) == body
    assert f.encode_tail(FOOTER, 0)[106:-4] == struct.pack("<I8s", 106, b"QUIVER\0S")


@pytest.mark.parametrize("crc32", [0, 1, 2**31, U32])
def test_a_trailer_gives_the_checksum_of_the_file(crc32):
    assert f.decode_trailer(trailer(34, crc32), file_bytes=50) == (34, crc32)


@pytest.mark.parametrize(
    "extension",
    [
        f.Extension(U64, I64, I64, U64, U64, I64, I64, U32, U32),
        f.Extension(0, 0, 0, 0, 0, -(2**63), -(2**63), 0, 0),
        f.Extension(1, 2**62, I64, 2**63, 2**63, -1, 1, 2**31, 2**31),
    ],
)
def test_every_field_of_the_extension_holds_its_greatest_and_its_least_value(extension):
    assert decoded(dataclasses.replace(FOOTER, extension=extension)).extension == extension


@pytest.mark.parametrize(
    "footer, offset",
    [
        (changed(stream_count=100_000, bundle_count=10_000_000), START),
        (changed(stream_count=0, bundle_count=0), START),
        (changed(directory_offset=0, directory_length=1, manifest_offset=1, manifest_length=1), 2),
        (changed(directory_offset=939, directory_length=1), START),
        (changed(directory_offset=1140, directory_length=1), 1141),
        (changed(manifest_offset=540, manifest_length=100), START),
        (changed(directory_offset=U64 - U32, directory_length=U32), U64),
        (changed(manifest_offset=U64 - U32, manifest_length=U32), U64),
    ],
)
def test_tables_may_touch_each_other_and_the_footer_in_either_order(footer, offset):
    assert decoded(footer, offset) == footer


def test_a_footer_may_be_read_from_a_view():
    for footer in (FOOTER, PLAIN):
        assert f.decode_footer(memoryview(footer_of(footer)), offset=START) == footer


@pytest.mark.parametrize(
    "changes, words, expected, found",
    [
        ({"stream_count": 100_001}, "many streams", "at most 100000", 100_001),
        ({"stream_count": U32}, "many streams", "at most 100000", U32),
        ({"bundle_count": 10_000_001}, "many bundles", "at most 10000000", 10_000_001),
        ({"bundle_count": U32}, "many bundles", "at most 10000000", U32),
        ({"directory_length": 301}, "overlap", "the second from 941", 940),
        ({"manifest_offset": 441}, "overlap", "the second from 641", 640),
        ({"manifest_offset": 640, "manifest_length": 300}, "overlap", "the second from 940", 640),
    ],
)
def test_an_impossible_footer_says_what_is_possible(changes, words, expected, found):
    with pytest.raises(DamagedEntry, match=words) as caught:
        decoded(changed(**changes))
    assert (caught.value.expected, caught.value.found) == (expected, found)


@pytest.mark.parametrize(
    "changes, table, start, length",
    [
        ({"directory_length": 0}, "directory", 640, 0),
        ({"directory_length": U32}, "directory", 640, U32),
        ({"directory_offset": 841}, "directory", 841, 300),
        ({"directory_offset": U64}, "directory", U64, 300),
        ({"manifest_length": 0}, "manifest", 940, 0),
        ({"manifest_length": 201}, "manifest", 940, 201),
        ({"manifest_length": U32}, "manifest", 940, U32),
        ({"manifest_offset": U64}, "manifest", U64, 200),
    ],
)
def test_a_table_outside_its_file_says_where_it_would_be(changes, table, start, length):
    with pytest.raises(DamagedEntry, match=f"{table} lies outside") as caught:
        decoded(changed(**changes))
    assert caught.value.expected == f"within 0..{START}"
    assert caught.value.found == f"{start}..{start + length}"


@pytest.mark.parametrize("version", [0, 2, 0xFFFF])
def test_another_version_is_named_before_anything_else_is_believed(version):
    body = struct.pack("<H", version) + b"\xff" * 32
    with pytest.raises(VersionError, match=f"version {version} is not known, only 1"):
        f.decode_footer(body, offset=START)


@pytest.mark.parametrize("length", [0, 1, 33])
def test_a_footer_that_ends_early_says_how_much_of_it_is_there(length):
    with pytest.raises(TornEntry) as caught:
        f.decode_footer(footer_of(PLAIN)[:length], offset=START)
    assert (caught.value.expected, caught.value.found) == (34, length)


@pytest.mark.parametrize("extra", [4, 71])
def test_an_extension_that_ends_early_says_how_much_of_it_is_there(extra):
    with pytest.raises(TornEntry) as caught:
        f.decode_footer(footer_of(FOOTER)[: 34 + extra], offset=START)
    error = caught.value
    assert (error.offset, error.expected, error.found) == (34, 72, extra)


@pytest.mark.parametrize("extra", [b"", b"Q", b"QVX", b"QVX2" + bytes(99), b"xQVX1" + bytes(99)])
def test_what_does_not_begin_with_our_magic_is_not_ours(extra):
    assert f.decode_footer(footer_of(PLAIN) + extra, offset=START) == PLAIN


def test_a_wrong_checksum_of_a_footer_gives_both():
    body = footer_of(FOOTER)
    with pytest.raises(DamagedEntry, match="checksum") as caught:
        f.decode_footer(body[:-4] + struct.pack("<I", 0xFEDC_BA98), offset=START)
    right = f"{crc32c(body[:-4]):#010x}"
    assert (caught.value.expected, caught.value.found) == ("0xfedcba98", right)


@pytest.mark.parametrize(
    "low, high, words",
    [
        ("wal_seq_first", "wal_seq_last", "log sequences run backwards"),
        ("ingestion_ns_min", "ingestion_ns_max", "ingestion times run backwards"),
    ],
)
def test_a_range_may_be_one_long_and_no_less(low, high, words):
    one = dataclasses.replace(FOOTER, extension=dataclasses.replace(EXTENSION, **{low: 5, high: 5}))
    assert decoded(one) == one
    less = dataclasses.replace(EXTENSION, **{low: 5, high: 4})
    with pytest.raises(DamagedEntry, match=words) as caught:
        decoded(dataclasses.replace(FOOTER, extension=less))
    error = caught.value
    assert (error.offset, error.expected, error.found) == (34, "at least 5", 4)


@pytest.mark.parametrize("last", [I64 + 1, U64])
def test_no_footer_names_a_bundle_above_the_greatest_number(last):
    above = dataclasses.replace(EXTENSION, wal_seq_last=last)
    with pytest.raises(DamagedEntry, match="names a bundle beyond all numbers") as caught:
        decoded(dataclasses.replace(FOOTER, extension=above))
    error = caught.value
    assert (error.offset, error.expected, error.found) == (34, f"at most {I64}", last)


@pytest.mark.parametrize(
    "length, file_bytes",
    [(34, 50), (34, 1 << 40), (35, 51), (65_536, 65_552), (65_536, 1 << 40), (100, 117)],
)
def test_a_footer_may_fill_its_file_and_be_as_long_as_the_limit(length, file_bytes):
    assert f.decode_trailer(trailer(length), file_bytes=file_bytes).footer_length == length


@pytest.mark.parametrize(
    "length, file_bytes, longest",
    [(33, 50, 34), (35, 50, 34), (0, 200, 184), (65_537, 65_553, 65_536), (U32, 1 << 40, 65_536)],
)
def test_an_impossible_length_of_a_footer_says_what_is_possible(length, file_bytes, longest):
    with pytest.raises(DamagedEntry, match="impossible length") as caught:
        f.decode_trailer(trailer(length), file_bytes=file_bytes)
    error = caught.value
    assert (error.offset, error.expected) == (file_bytes - 16, f"34..{longest}")
    assert error.found == length


@pytest.mark.parametrize("data, file_bytes", [(bytes(16), 49), (bytes(15), 50), (b"", 1 << 40)])
def test_a_file_or_a_trailer_that_is_too_short_is_torn(data, file_bytes):
    with pytest.raises(TornEntry) as caught:
        f.decode_trailer(data, file_bytes=file_bytes)
    assert (caught.value.expected, caught.value.found) == ("at least 50 bytes", file_bytes)


def test_a_file_that_ends_with_something_else_says_with_what():
    with pytest.raises(DamagedEntry, match="magic") as caught:
        f.decode_trailer(struct.pack("<I8sI", 34, b"PARQUET1", 0), file_bytes=50)
    error = caught.value
    assert (error.offset, error.expected, error.found) == (38, b"QUIVER\0S", b"PARQUET1")


@pytest.mark.parametrize("seq", [-1, 10**16])
def test_a_number_without_a_name_says_which_have_one(seq):
    with pytest.raises(InputError, match=rf"{seq} is not within 0\.\.9999999999999999"):
        f.segment_name(seq)


@pytest.mark.parametrize("digits", [15, 17])
def test_a_name_has_sixteen_digits(digits):
    assert f.segment_name(10**15) == "1000000000000000.qseg"
    assert f.parse_segment_name("1" * digits + ".qseg") is None
    assert f.parse_segment_name("1" * 16 + ".qseg") == 1_111_111_111_111_111
    assert f.parse_segment_name("1" * 16 + ".qseg.qseg") is None
