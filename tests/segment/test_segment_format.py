from __future__ import annotations

import struct
import zlib
from dataclasses import replace

import crc32c
import pytest

from quiver.errors import DamagedEntry, InputError, TornEntry, VersionError
from quiver.segment import format as f

EXTENSION = f.Extension(7, 100, 199, 3, 4096, 10, 20, 0xAAAA, 0xBBBB)
FOOTER = f.Footer(2, 100, 640, 300, 940, 200, EXTENSION)
START = 1140


def split(tail: bytes) -> tuple[bytes, bytes]:
    return tail[: -f.TRAILER_BYTES], tail[-f.TRAILER_BYTES :]


def reseal(footer: bytes) -> bytes:
    """Give a changed footer the checksum that it would have had."""
    return footer[:-4] + struct.pack("<I", crc32c.crc32c(footer[:-4]))


def patch(data: bytes, offset: int, kind: str, value: object) -> bytes:
    packed = struct.pack(kind, value)
    return data[:offset] + packed + data[offset + len(packed) :]


def test_the_structs_have_the_sizes_that_the_format_page_gives():
    assert f.FOOTER_V1_BYTES == 34
    assert f.EXTENSION_BYTES == 72
    assert f.TRAILER_BYTES == 16


@pytest.mark.parametrize("extension", [None, EXTENSION])
def test_a_footer_comes_back_as_it_was_written(extension):
    footer = replace(FOOTER, extension=extension)
    body, trailer = split(f.encode_tail(footer, 0))
    assert len(body) == (34 if extension is None else 106)
    assert f.decode_footer(body, offset=START) == footer
    size = START + len(body) + len(trailer)
    assert f.decode_trailer(trailer, file_bytes=size).footer_length == len(body)


def test_the_trailer_continues_the_checksum_of_what_lies_before_it():
    before = b"streams and tables"
    tail = f.encode_tail(FOOTER, zlib.crc32(before))
    (found,) = struct.unpack("<I", tail[-4:])
    assert found == zlib.crc32(before + tail[:-4])


def test_what_a_later_writer_adds_to_the_extension_is_skipped():
    body, _ = split(f.encode_tail(FOOTER, 0))
    longer = body[:-4] + b"more of it" + bytes(4)
    assert f.decode_footer(reseal(longer), offset=START) == FOOTER


def test_what_another_writer_puts_behind_version_1_is_skipped():
    body, _ = split(f.encode_tail(replace(FOOTER, extension=None), 0))
    assert f.decode_footer(body + b"unknown", offset=START).extension is None


TRAILERS = [
    ("footer shorter than version 1", 0, "<I", 33, DamagedEntry, 1246),
    ("footer longer than the file", 0, "<I", 1247, DamagedEntry, 1246),
    ("footer of four gigabytes", 0, "<I", 0xFFFF_FFFF, DamagedEntry, 1246),
    ("first letter of the magic", 4, "<B", 0x71, DamagedEntry, 1250),
    ("last letter of the magic", 11, "<B", 0x54, DamagedEntry, 1250),
]


@pytest.mark.parametrize("what,place,kind,value,error,offset", TRAILERS)
def test_each_damaged_field_of_a_trailer_is_named(what, place, kind, value, error, offset):
    _, trailer = split(f.encode_tail(FOOTER, 0))
    with pytest.raises(error) as caught:
        f.decode_trailer(patch(trailer, place, kind, value), file_bytes=START + 106 + 16)
    assert caught.value.offset == offset


@pytest.mark.parametrize("size", [0, 15, 16, 49])
def test_a_file_too_short_for_any_segment_is_torn(size):
    with pytest.raises(TornEntry) as caught:
        f.decode_trailer(bytes(min(size, 16)), file_bytes=size)
    assert caught.value.found == size


def test_a_footer_longer_than_any_known_one_is_refused_before_it_is_read():
    trailer = struct.pack("<I8sI", f.FOOTER_BYTES_MAX + 1, f.MAGIC, 0)
    with pytest.raises(DamagedEntry, match="impossible length"):
        f.decode_trailer(trailer, file_bytes=1 << 40)


FIELDS = [
    ("version", 0, "<H", 2, VersionError, "version 2"),
    ("stream_count", 2, "<I", 100_001, DamagedEntry, "streams"),
    ("bundle_count", 6, "<I", 10_000_001, DamagedEntry, "bundles"),
    ("directory_offset at the end", 10, "<Q", START, DamagedEntry, "directory lies outside"),
    ("directory_offset beyond u63", 10, "<Q", 2**64 - 1, DamagedEntry, "directory lies outside"),
    ("directory_length zero", 18, "<I", 0, DamagedEntry, "directory lies outside"),
    ("directory_length into manifest", 18, "<I", 301, DamagedEntry, "overlap"),
    ("manifest_offset into directory", 22, "<Q", 939, DamagedEntry, "overlap"),
    ("manifest_length past the footer", 30, "<I", 201, DamagedEntry, "manifest lies outside"),
]


@pytest.mark.parametrize("extension", [None, EXTENSION], ids=["version 1", "extended"])
@pytest.mark.parametrize("what,place,kind,value,error,message", FIELDS)
def test_each_impossible_field_of_a_footer_is_named(
    extension, what, place, kind, value, error, message
):
    body, _ = split(f.encode_tail(replace(FOOTER, extension=extension), 0))
    changed = patch(body, place, kind, value)
    with pytest.raises(error, match=message):
        f.decode_footer(reseal(changed) if extension else changed, offset=START)


EXTENDED = [
    ("segment_seq", 38),
    ("wal_seq_first", 46),
    ("wal_seq_last", 54),
    ("wal_generation", 62),
    ("wal_offset", 70),
    ("ingestion_ns_min", 78),
    ("ingestion_ns_max", 86),
    ("directory_crc32c", 94),
    ("manifest_crc32c", 98),
    ("footer_crc32c", 102),
]


@pytest.mark.parametrize("what,place", EXTENDED)
def test_each_field_of_the_extension_is_under_its_checksum(what, place):
    body, _ = split(f.encode_tail(FOOTER, 0))
    with pytest.raises(DamagedEntry, match="checksum"):
        f.decode_footer(patch(body, place, "<B", body[place] ^ 0x40), offset=START)


@pytest.mark.parametrize(
    "change", [{"wal_seq_first": 200}, {"ingestion_ns_max": 9}], ids=["sequences", "times"]
)
def test_ranges_that_run_backwards_are_refused(change):
    body, _ = split(f.encode_tail(replace(FOOTER, extension=replace(EXTENSION, **change)), 0))
    with pytest.raises(DamagedEntry, match="backwards"):
        f.decode_footer(body, offset=START)


def test_a_flipped_magic_makes_the_extension_another_writers():
    body, _ = split(f.encode_tail(FOOTER, 0))
    assert f.decode_footer(patch(body, 34, "<B", 0), offset=START).extension is None


@pytest.mark.parametrize("length", [38, 105])
def test_an_extension_that_ends_early_is_torn(length):
    body, _ = split(f.encode_tail(FOOTER, 0))
    with pytest.raises(TornEntry):
        f.decode_footer(body[:length], offset=START)


def test_a_footer_that_ends_early_is_torn():
    with pytest.raises(TornEntry):
        f.decode_footer(bytes(33), offset=START)


@pytest.mark.parametrize("seq", [0, 7, 42, 10**16 - 1])
def test_a_segment_number_formats_to_sixteen_digits_and_parses_back(seq):
    name = f.segment_name(seq)
    assert len(name) == 21
    assert f.parse_segment_name(name) == seq


@pytest.mark.parametrize("seq", [-1, 10**16])
def test_a_number_that_sixteen_digits_cannot_hold_is_refused(seq):
    with pytest.raises(InputError):
        f.segment_name(seq)


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".qseg",
        "42.qseg",
        "0000000000000042",
        "0000000000000042.qseg.tmp",
        "00000000000000042.qseg",
        "000000000000004x.qseg",
        "-000000000000042.qseg",
        "٠٠٠٠٠٠٠٠٠٠٠٠٠٠٤٢.qseg",
        "0000000000000042.QSEG",
        "quiver.wal",
    ],
)
def test_odd_names_are_not_those_of_segments(name):
    assert f.parse_segment_name(name) is None
