"""What a reader of version 1 relies on, held against the files that we write: FORMAT.md, 8.

``read_v1`` reads by that version's tables alone and refuses all that its reader refuses.
"""

from __future__ import annotations

import contextlib
import struct
import tempfile
import zlib

import pyarrow as pa
import pytest
import upstream_kit as kit
from hypothesis import given, settings
from hypothesis import strategies as st
from upstream_kit import read_v1

from quiver.bundle import fingerprint
from quiver.disk import LocalDisk
from quiver.errors import DamagedEntry, DamageError, VersionError
from quiver.ipc import encode_stream
from quiver.payload import EncodedBundle, Payload
from quiver.segment import SegmentLabel, SegmentReader, write_segment
from quiver.segment import format as segment
from quiver.segment.dictionaries import _erased, restore
from quiver.slots import SLOTS_MAX, SlotTable
from quiver.testing.same import difference
from quiver.testing.strategies import bundles

FOOTER = struct.Struct("<HIIQIQI")


def levels(*values: str | None, kind: pa.DataType | None = None) -> pa.RecordBatch:
    kind = kind or pa.dictionary(pa.int8(), pa.string())
    return pa.record_batch({"level": pa.array(values, kind)})


def nested(*values: str) -> pa.RecordBatch:
    inner = pa.array(values).dictionary_encode()
    offsets = pa.array(range(len(values) + 1), pa.int32())
    return pa.record_batch({"lists": pa.ListArray.from_arrays(offsets, inner)})


def footer_of(data: bytes) -> tuple[int, tuple[int, ...]]:
    """Where the footer begins, and its 34 bytes as version 1 reads them."""
    (size,) = struct.unpack_from("<I", data, len(data) - 16)
    start = len(data) - 16 - size
    return start, FOOTER.unpack_from(data, start)


def resealed(data: bytes | bytearray) -> bytes:
    return bytes(data[:-4]) + struct.pack("<I", zlib.crc32(data[:-4]))


def check(data: bytes, written: list[dict[int, pa.RecordBatch]]) -> None:
    found = read_v1(data)
    assert len(found) == len(written)
    for batches, wanted in zip(found, written, strict=True):
        assert batches.keys() == wanted.keys()
        for slot, batch in batches.items():
            # Its tables do not know of the schema that was declared: indices may be narrower.
            stored, declared = (_erased(each.schema) for each in (batch, wanted[slot]))
            assert stored.equals(declared, check_metadata=True)
            assert difference(wanted[slot], restore(batch, wanted[slot].schema)) is None


WRITTEN = {
    "one bundle": [{0: kit.logs("a")}],
    "empty bundles among others": [{}, {0: kit.logs("a")}, {}],
    "empty bundles alone": [{}, {}],
    "no rows": [{0: kit.logs()}, {0: kit.logs("a")}],
    "no columns": [{0: pa.record_batch([], schema=pa.schema([]))}],
    "the last slot": [{63: kit.logs("a")}, {0: kit.logs("b"), 63: kit.logs("c")}],
    "dictionaries that differ": [{0: levels("a", None)}, {0: levels("b", "a")}, {0: levels("c")}],
    "nested dictionaries": [{0: nested("a", "b")}, {0: nested("c")}],
    "several streams of a slot": [
        {0: kit.logs("a")},
        {0: levels("x")},
        {0: kit.logs("b")},
        {0: levels("x", kind=pa.dictionary(pa.int16(), pa.string()))},
    ],
    "schema metadata": [{5: kit.logs("a").replace_schema_metadata({"unit": "ms"})}],
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_reader_of_version_1_reads(shelf, name) -> None:
    check(shelf.load(shelf.write(*WRITTEN[name])), WRITTEN[name])


def test_300_bundles_with_dictionaries_of_their_own_are_read(shelf) -> None:
    many = [{0: levels(f"value {number % 100}", "all")} for number in range(300)]
    check(shelf.load(shelf.write(*many)), many)


@given(st.lists(bundles(["a", "b"]), min_size=1, max_size=4))
@settings(max_examples=40, deadline=None)
def test_a_reader_of_version_1_reads_any_bundles(drawn) -> None:
    slots = SlotTable.of(["a", "b"])
    written = [
        {slots[name].slot_id: batch for name, batch in sorted(bundle.items())} for bundle in drawn
    ]
    encoded = [
        EncodedBundle(
            number,
            0,
            tuple(
                Payload(slot, slot, fingerprint(batch.schema), batch.num_rows, encode_stream(batch))
                for slot, batch in bundle.items()
            ),
        )
        for number, bundle in enumerate(written)
    ]
    with tempfile.TemporaryDirectory() as folder:
        disk = LocalDisk(folder)
        label = SegmentLabel(0, "0" * 32, 0, slots, 1, 30)
        info = write_segment(disk, "", encoded, label=label)
        check(bytes(disk.map(info.path)), written)
        disk.close()


# layout ----------------------------------------------------------------------------------------


@pytest.fixture
def data(shelf) -> bytes:
    return shelf.load(shelf.write({0: kit.logs("a"), 5: levels("x")}, {0: levels("y")}))


def test_everything_lies_where_version_1_says(data) -> None:
    """Streams on multiples of 64 with zeros between, then tables and footer without a gap.

    Between the manifest and the footer stands our index, which the footer of version 1 passes over.
    """
    start, (version, streams, _, directory, directory_bytes, manifest, manifest_bytes) = footer_of(
        data
    )
    rows = pa.ipc.open_file(data[directory:][:directory_bytes]).read_all().to_pylist()
    assert version == 1
    assert [row["stream_id"] for row in rows] == list(range(streams))
    end = 0
    for row in rows:
        assert row["byte_offset"] == -(-end // 64) * 64
        assert set(data[end : row["byte_offset"]]) <= {0}
        assert data[row["byte_offset"] :].startswith(b"ARROW1")
        end = row["byte_offset"] + row["byte_length"]
    assert directory == end
    assert manifest == directory + directory_bytes
    index, index_bytes, _ = struct.unpack_from("<QQI", data, start + 34 + 68)
    assert index == manifest + manifest_bytes
    assert start == index + index_bytes


def test_columns_of_ours_stand_behind_those_of_version_1(data) -> None:
    _, (_, _, _, directory, directory_bytes, manifest, manifest_bytes) = footer_of(data)
    for offset, length, theirs in (
        (directory, directory_bytes, kit.directory([])),
        (manifest, manifest_bytes, kit.manifest([[]])),
    ):
        ours = pa.ipc.open_file(data[offset:][:length]).schema
        wanted = pa.ipc.open_file(theirs).schema
        assert list(ours)[: len(wanted)] == list(wanted)
        assert len(ours) > len(wanted)
        assert not {"item_count"} & set(ours.names)
        for key, value in (ours.metadata or {}).items():
            assert key.startswith(b"quiver.")
            assert value.decode().isprintable()


def test_nothing_of_ours_is_needed_by_a_reader_of_version_1(data) -> None:
    """What stands in the footer behind its first 34 bytes may be anything, or not be there."""
    start, _ = footer_of(data)
    wanted = [{slot: b.to_pylist() for slot, b in one.items()} for one in read_v1(data)]
    spoilt = bytearray(data)
    spoilt[start + 34 : -16] = b"\xff" * (len(data) - 16 - start - 34)
    cut = data[: start + 34] + struct.pack("<I", 34) + data[-12:]
    for changed in (resealed(spoilt), resealed(cut)):
        found = read_v1(changed)
        assert [{slot: b.to_pylist() for slot, b in one.items()} for one in found] == wanted


def test_our_own_reader_reads_it_without_what_is_ours_in_the_footer(shelf, data) -> None:
    start, _ = footer_of(data)
    cut = resealed(data[: start + 34] + struct.pack("<I", 34) + data[-12:])
    reader = SegmentReader.open(shelf.disk, shelf.save(cut))
    assert reader.footer.extension is None
    reader.verify()
    assert reader.bundle(0)[0].equals(kit.logs("a"))


def test_limits_are_those_of_version_1() -> None:
    assert segment.STREAMS_MAX == 100_000
    assert segment.BUNDLES_MAX == 10_000_000
    assert segment.CHUNKS_MAX == 10_000_000
    assert SLOTS_MAX == 64


# the reader of version 1 can say no ------------------------------------------------------------


def put(data: bytes, offset: int, layout: str, value: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into(layout, changed, offset, value)
    return resealed(changed)


@pytest.mark.parametrize(
    ("offset", "layout", "value"),
    [(0, "<H", 2), (2, "<I", 9), (6, "<I", 9), (10, "<Q", 1 << 40), (18, "<I", 7)],
    ids=["version", "streams", "bundles", "directory offset", "directory length"],
)
def test_the_reader_of_this_test_refuses_a_wrong_footer(data, offset, layout, value) -> None:
    start, _ = footer_of(data)
    with pytest.raises((AssertionError, pa.ArrowInvalid)):
        read_v1(put(data, start + offset, layout, value))
    with pytest.raises(AssertionError):
        read_v1(data[:-1] + bytes([data[-1] ^ 1]))


# and so can ours -------------------------------------------------------------------------------


def read_all(shelf, data: bytes) -> None:
    path = shelf.save(data)
    with SegmentReader.open(shelf.disk, path) as reader:
        reader.verify()
        for index in range(reader.bundle_count):
            for batch in reader.bundle(index).values():
                batch.to_pylist()


THEIRS = kit.segment({30: kit.logs("a")}, {30: kit.logs("b"), 31: levels("x")})


def test_every_changed_byte_of_a_segment_of_version_1_is_met(shelf) -> None:
    read_all(shelf, THEIRS)
    for place in range(len(THEIRS)):
        changed = bytearray(THEIRS)
        changed[place] ^= 0xFF
        with pytest.raises((DamageError, VersionError)) as caught:
            read_all(shelf, bytes(changed))
        if isinstance(caught.value, DamageError):
            assert caught.value.path == shelf.disk.locate("0000000000000007.qseg")
    for end in range(0, len(THEIRS), 7):
        with pytest.raises(DamageError):
            read_all(shelf, THEIRS[:end])


def test_with_its_checksum_made_right_each_changed_byte_is_read_or_refused(shelf) -> None:
    for place in range(0, len(THEIRS) - 4, 3):
        for mask in (1, 0xFF):
            changed = bytearray(THEIRS)
            changed[place] ^= mask
            with contextlib.suppress(DamageError, VersionError):
                read_all(shelf, resealed(changed))


@pytest.mark.parametrize(
    ("refs", "text"),
    [
        ([[(30, 0, 0), (30, 0, 0)]], "fills a slot twice"),
        ([[(30, 0, 2)]], "needs a chunk that its stream has not"),
        ([[(31, 0, 0)]], "takes a chunk of another slot"),
        ([[(30, 1, 0)]], "is filled from a stream that does not exist"),
        ([[(64, 0, 0)]], "has an impossible slot"),
    ],
)
def test_references_of_version_1_that_cannot_be_are_refused(shelf, refs, text) -> None:
    stream = (30, kit.arrow_file(kit.logs().schema, kit.logs("a")), 1, 1)
    with pytest.raises(DamagedEntry, match=text):
        read_all(shelf, kit.assemble([stream], refs))
