from __future__ import annotations

import os
import stat

import pyarrow as pa
import pytest

from quiver.disk import LocalDisk
from quiver.errors import CapacityError, ClosedError, DamagedEntry, InputError
from quiver.payload import EncodedBundle
from quiver.segment import SegmentInfo, SegmentReader, write_segment
from quiver.segment import contents as contents_module
from quiver.segment import writer as writer_module
from quiver.slots import Slot, SlotTable


def test_bundles_come_back_slot_by_slot(shelf, numbers):
    bundles = [{0: numbers(1, 2), 5: numbers(3)}, {5: numbers(4)}, {0: numbers(name="other")}]
    with shelf.read(shelf.write(*bundles)) as reader:
        assert reader.bundle_count == 3
        for index, bundle in enumerate(bundles):
            found = reader.bundle(index)
            assert list(found) == list(bundle)
            for slot_id, batch in bundle.items():
                assert found[slot_id].equals(batch, check_metadata=True)


def test_an_empty_segment_cannot_be_written(shelf):
    with pytest.raises(InputError, match="empty segment"):
        shelf.write()
    assert shelf.disk.list_dir("") == []


def test_the_same_slot_and_fingerprint_share_a_stream_and_others_do_not(shelf, numbers):
    a, b = numbers(1), numbers(1, name="other")
    reader = shelf.read(shelf.write({0: a, 5: a}, {0: b}, {0: a, 5: a}, {0: a}))
    assert [(s.stream_id, s.slot_id, s.chunk_count) for s in reader.streams] == [
        (0, 0, 3),
        (1, 5, 2),
        (2, 0, 1),
    ]
    places = [
        [(ref.slot_id, ref.stream_id, ref.chunk_index) for ref in reader.bundle_entry(i).refs]
        for i in range(4)
    ]
    assert places == [[(0, 0, 0), (5, 1, 0)], [(0, 2, 0)], [(0, 0, 1), (5, 1, 1)], [(0, 0, 2)]]


def test_a_schema_unequal_to_the_streams_of_its_fingerprint_gets_a_stream_of_its_own(
    shelf, numbers
):
    strict = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    batches = [numbers(1), pa.record_batch([[2]], schema=strict), numbers(3)]
    same = {0: b"same" * 8}
    bundles = [shelf.encode(i, {0: batch}, prints=same) for i, batch in enumerate(batches)]
    info = write_segment(shelf.disk, "", bundles, label=shelf.label())
    reader = shelf.read(info)
    assert [(s.fingerprint, s.chunk_count) for s in reader.streams] == [(same[0], 2), (same[0], 1)]
    assert [reader.bundle(i)[0].schema for i in range(3)] == [b.schema for b in batches]


@pytest.mark.parametrize("slot_ids", [[0, 64], [-1]])
def test_a_slot_outside_of_64_cannot_be_written(shelf, numbers, slot_ids):
    bundle = shelf.encode(1, dict.fromkeys(slot_ids, numbers(1)))
    with pytest.raises(InputError, match="outside"):
        write_segment(shelf.disk, "", [bundle], label=shelf.label())


def test_a_slot_that_is_not_in_the_table_cannot_be_written(shelf, numbers):
    with pytest.raises(InputError, match="no slot 6"):
        shelf.write({6: numbers(1)})


def test_all_64_slots_of_one_bundle_come_back(shelf, numbers):
    shelf.slots = SlotTable([Slot(i, f"slot{i}", i) for i in range(64)])
    found = shelf.read(shelf.write({i: numbers(i) for i in range(64)})).bundle(0)
    assert [batch["n"][0].as_py() for batch in found.values()] == list(range(64))


def test_a_payload_that_is_not_what_it_says_cannot_be_written(shelf, numbers):
    good = shelf.encode(1, {0: numbers(1, 2)})
    payload = good.payloads[0]
    wrong = type(payload)(0, 0, payload.fingerprint, 3, payload.data)
    bundle = EncodedBundle(1, 1, (wrong,))
    with pytest.raises(DamagedEntry, match="number of rows"):
        write_segment(shelf.disk, "", [bundle], label=shelf.label())
    assert shelf.disk.list_dir("") == []


@pytest.mark.parametrize("stream_id,chunk", [(0, 1), (0, -1), (1, 0), (-1, 0)])
def test_a_chunk_or_stream_that_is_not_there_is_refused(shelf, numbers, stream_id, chunk):
    reader = shelf.read(shelf.write({0: numbers(1)}))
    with pytest.raises(InputError):
        reader.chunk(stream_id, chunk)


@pytest.mark.parametrize("index", [-1, 1])
def test_a_bundle_that_is_not_there_is_refused(shelf, numbers, index):
    reader = shelf.read(shelf.write({0: numbers(1)}))
    with pytest.raises(InputError, match=f"no bundle {index}"):
        reader.bundle(index)
    with pytest.raises(InputError, match=f"no bundle {index}"):
        reader.bundle_entry(index)


def test_only_the_slots_asked_for_are_read(shelf, numbers):
    info = shelf.write({0: numbers(1), 5: numbers(2)})
    reader = shelf.read(info)
    broken = bytearray(shelf.load(info))
    broken[reader.streams[1].byte_offset + 100] ^= 1
    reader = SegmentReader.open(shelf.disk, shelf.save(bytes(broken)))
    assert list(reader.bundle(0, slots={0, 63})) == [0]
    with pytest.raises(DamagedEntry, match="stream 1's checksum"):
        reader.bundle(0)


def test_a_chunk_and_a_schema_are_read_by_stream(shelf, numbers):
    reader = shelf.read(shelf.write({0: numbers(1)}, {0: numbers(2, 3)}))
    assert reader.chunk(0, 1).equals(numbers(2, 3))
    assert reader.stream_schema(0) == numbers().schema


def test_a_bundle_outlives_its_reader_and_its_file(shelf, numbers):
    info = shelf.write({0: numbers(1, 2, 3)})
    reader = shelf.read(info)
    batch = reader.bundle(0)[0]
    reader.close()
    reader.close()
    shelf.disk.unlink(info.path)
    assert batch.equals(numbers(1, 2, 3))
    for use in (lambda: reader.bundle(0), lambda: reader.stream_schema(0), reader.verify):
        with pytest.raises(ClosedError):
            use()


def test_buffers_lie_in_the_map(shelf, numbers):
    info = shelf.write({0: numbers(1)}, {0: pa.record_batch({"s": ["text"]})})
    view = shelf.disk.map(info.path)
    start = pa.py_buffer(view).address
    reader = SegmentReader(shelf.disk, info.path, view)
    for index in range(2):
        for column in reader.bundle(index)[0].columns:
            for buffer in filter(None, column.buffers()):
                assert start <= buffer.address < start + len(view)
                assert (buffer.address - start) % 8 == 0


def test_every_stream_starts_on_a_multiple_of_64(shelf, numbers):
    reader = shelf.read(shelf.write({0: numbers(1), 5: numbers(2), 63: numbers(3)}))
    assert [s.byte_offset % 64 for s in reader.streams] == [0, 0, 0]


def test_the_file_is_read_only_and_no_other_is_left(shelf, numbers):
    info = shelf.write({0: numbers(1)}, seq=42)
    assert [entry.name for entry in shelf.disk.list_dir("")] == ["0000000000000042.qseg"]
    with open(shelf.disk.locate(info.path), "rb") as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o440


def test_the_info_says_what_the_segment_covers(shelf, numbers):
    info = shelf.write({0: numbers(1)}, {0: numbers(1)}, {5: numbers(1)}, seq=42)
    size = len(shelf.load(info))
    assert info == SegmentInfo(
        segment_seq=42,
        path="0000000000000042.qseg",
        file_bytes=size,
        allocated_bytes=info.allocated_bytes,
        bundle_count=3,
        stream_count=2,
        wal_seq_first=100,
        wal_seq_last=102,
        wal_generation=3,
        wal_offset=4096,
        ingestion_ns_min=100 * 10**9,
        ingestion_ns_max=102 * 10**9,
    )
    assert info.allocated_bytes == shelf.disk.stat(info.path).allocated
    assert shelf.read(info).info == info


def test_the_reader_knows_the_store_and_its_slots(shelf, numbers):
    reader = shelf.read(shelf.write({5: numbers(1)}))
    assert reader.store_id == "5ca1ab1e" * 4
    assert reader.slots == shelf.slots
    assert reader.slots[0].event_time == "at"
    assert reader.streams[0].payload_type == "resources"


def test_equal_bundles_and_label_give_equal_files(shelf, numbers):
    words = [pa.array(w).dictionary_encode() for w in (["a", "b"], ["c", "a"])]
    bundles = [{0: pa.record_batch([w], ["w"]), 5: numbers(1)} for w in words]
    first = shelf.load(shelf.write(*bundles))
    assert shelf.load(shelf.write(*bundles)) == first


def test_a_full_disk_leaves_no_file_behind_and_can_be_tried_again(tmp_path, shelf, numbers):
    class Full(LocalDisk):
        def rename(self, source: str, target: str) -> None:
            raise CapacityError("no room")

    bundle = shelf.encode(1, {0: numbers(1)})
    with pytest.raises(CapacityError):
        write_segment(Full(tmp_path), "", [bundle], label=shelf.label())
    assert shelf.disk.list_dir("") == []
    info = write_segment(shelf.disk, "", [bundle], label=shelf.label())
    shelf.read(info).verify()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (writer_module, "BUNDLES_MAX"),
        (writer_module, "STREAMS_MAX"),
        (contents_module, "LENGTH_MAX"),
    ],
)
def test_what_would_be_too_large_to_read_is_never_written(
    shelf, numbers, monkeypatch, module, name
):
    monkeypatch.setattr(module, name, 1)
    with pytest.raises(InputError):
        shelf.write({0: numbers(1)}, {5: numbers(1)})
    assert shelf.disk.list_dir("") == []


def test_a_bundle_without_slots_keeps_its_place(shelf, numbers):
    reader = shelf.read(shelf.write({0: numbers(1)}, {}, {0: numbers(2)}))
    assert [list(reader.bundle(i)) for i in range(3)] == [[0], [], [0]]
    assert reader.bundle_entry(1).byte_count == 0


def test_a_segment_in_a_folder_has_its_path(shelf, numbers):
    shelf.disk.make_dir("segments")
    bundle = shelf.encode(1, {0: numbers(1)})
    info = write_segment(shelf.disk, "segments", [bundle], label=shelf.label())
    assert info.path == "segments/0000000000000007.qseg"
    assert shelf.read(info).bundle(0)[0].equals(numbers(1))
