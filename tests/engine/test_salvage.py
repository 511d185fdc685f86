"""What a salvage keeps: everything that is sound anywhere, in its place."""

from __future__ import annotations

import pyarrow as pa
import pytest
from store_kit import SLOTS, abandon, bundle

import quiver
from quiver.config import Config
from quiver.disk import Disk
from quiver.engine.salvage import salvage
from quiver.errors import DamageError, LockedError
from quiver.segment import SegmentReader
from quiver.testing import ManualClock, MemoryDisk

SEGMENT = "core_0/segments/0000000000000000.qseg"
LOG = "core_0/wal/quiver.wal"


def opened(disk: Disk, **options: object) -> quiver.Store:
    settings = {"slots": SLOTS, "clock": ManualClock(), "worker": False} | options
    return quiver.open("memory", disk=disk, **settings)


def store_with_segment(*, reader: str = "", **config: object) -> MemoryDisk:
    """Leave bundles 0 to 3 in a segment, and in the log, which was not given back yet."""
    disk = MemoryDisk()
    store = opened(disk, config=config)
    for number in range(4):
        store.append(bundle(number))
    store.finalize()
    if reader:
        store.subscribe(reader)
    abandon(store)
    return disk


def flip(disk: MemoryDisk, path: str, place: int) -> None:
    file = disk.open(path, writable=True)
    file.write(place, bytes([file.read(place, 1)[0] ^ 0x10]))
    file.close()


def stream_place(disk: Disk, slot_id: int) -> int:
    with SegmentReader.open(disk, SEGMENT) as reader:
        return next(s.byte_offset for s in reader.streams if s.slot_id == slot_id) + 100


def forget_log(disk: MemoryDisk) -> None:
    """Empty the log as a store does that gives back what segments hold."""
    opened(disk, config={"wal": {"reclaim_size": 1}}).close()


def mended(disk: MemoryDisk) -> list[DamageError]:
    return salvage(disk, config=Config(), clock=ManualClock())


def taken(store: quiver.Store, name: str = "reader") -> list[int]:
    subscription = store.subscribe(name)
    found = []
    while (handle := subscription.poll()) is not None:
        with handle:
            expected = bundle(handle["events"].column("n")[0].as_py())
            assert {slot: batch.to_pylist() for slot, batch in handle.items()} == {
                slot: batch.to_pylist() for slot, batch in expected.items()
            }
            found.append(handle.wal_seq)
    return found


def test_a_sound_store_is_left_with_every_segment() -> None:
    disk = store_with_segment()
    before = bytes(disk.map(SEGMENT))
    assert mended(disk) == []
    assert bytes(disk.map(SEGMENT)) == before


@pytest.mark.parametrize("place", ["stream", "directory", "manifest"])
def test_what_the_log_still_has_is_not_lost_with_a_segment(place: str) -> None:
    disk = store_with_segment()
    with SegmentReader.open(disk, SEGMENT) as reader:
        offset = {
            "stream": 100,
            "directory": reader.footer.directory_offset + 50,
            "manifest": reader.footer.manifest_offset + 50,
        }[place]
    flip(disk, SEGMENT, offset)
    (damage,) = mended(disk)
    assert damage.path.endswith(".qseg")
    assert taken(opened(disk)) == [0, 1, 2, 3]
    with SegmentReader.open(disk, SEGMENT) as reader:
        assert not reader.lost


@pytest.mark.parametrize("written", ["none", "lz4", "zstd"])
@pytest.mark.parametrize("directory", ["sound", "damaged"])
def test_a_segment_is_written_anew_as_it_was_and_else_as_the_config_says(
    written: str, directory: str
) -> None:
    disk = store_with_segment(segment={"compression": written})
    with SegmentReader.open(disk, SEGMENT) as reader:
        assert reader.compression == written
        offset = 100 if directory == "sound" else reader.footer.directory_offset + 50
    flip(disk, SEGMENT, offset)
    config = Config.of({"segment": {"compression": "lz4"}})
    assert len(salvage(disk, config=config, clock=ManualClock())) == 1
    with SegmentReader.open(disk, SEGMENT) as reader:
        assert reader.compression == (written if directory == "sound" else "lz4")
        reader.verify()
    assert taken(opened(disk)) == [0, 1, 2, 3]


def test_a_segment_is_written_anew_with_dictionaries_as_large_as_the_config_says() -> None:
    disk = MemoryDisk()
    store = opened(disk)
    for text in "abcd":
        column = pa.array([text]).dictionary_encode()
        store.append({"events": pa.record_batch({"text": column})})
    store.finalize()
    abandon(store)
    flip(disk, SEGMENT, 100)
    config = Config.of({"segment": {"dictionary_cardinality": 2}})
    assert salvage(disk, config=config, clock=ManualClock())
    with SegmentReader.open(disk, SEGMENT) as reader:
        assert len(reader.streams) > 1
        assert [reader.bundle(n)[0]["text"].to_pylist() for n in range(4)] == [[t] for t in "abcd"]


def test_without_the_log_bundles_lose_the_damaged_slot_and_keep_the_others() -> None:
    disk = store_with_segment()
    forget_log(disk)
    flip(disk, SEGMENT, stream_place(disk, 1))
    assert mended(disk)
    with SegmentReader.open(disk, SEGMENT) as reader:
        reader.verify()
        assert reader.lost == {0: (1,), 2: (1,)}
        assert [sorted(reader.bundle(index)) for index in range(4)] == [[0]] * 4
        assert reader.info.bundle_count == 4


def test_a_subscriber_never_gets_a_bundle_that_is_not_whole() -> None:
    disk = store_with_segment(reader="early")
    forget_log(disk)
    flip(disk, SEGMENT, stream_place(disk, 1))
    mended(disk)
    store = opened(disk)
    assert taken(store, "early") == taken(store, "late") == [1, 3]
    dropped = ("quiver.subscriber.dropped_bundles", "early")
    assert store.metrics()[dropped] == 2
    assert not store.recovery.damage
    assert store.maintain() == 1


def test_a_second_salvage_keeps_what_the_first_wrote_down() -> None:
    disk = store_with_segment()
    forget_log(disk)
    flip(disk, SEGMENT, stream_place(disk, 1))
    mended(disk)
    with SegmentReader.open(disk, SEGMENT) as reader:
        flip(disk, SEGMENT, reader.info.file_bytes - 1)
    assert mended(disk)
    with SegmentReader.open(disk, SEGMENT) as reader:
        assert reader.lost == {0: (1,), 2: (1,)}
    copies = [e.name for e in disk.list_dir("core_0/quarantine") if e.name.endswith(".json")]
    assert len(copies) == 2


def test_a_segment_of_which_nothing_is_left_is_written_off_and_deleted() -> None:
    disk = store_with_segment(reader="early")
    forget_log(disk)
    with SegmentReader.open(disk, SEGMENT) as reader:
        flip(disk, SEGMENT, reader.footer.directory_offset + 50)
    assert mended(disk)
    assert disk.stat(SEGMENT) is None
    store = opened(disk)
    assert taken(store, "early") == []
    info = store.info()
    assert (info.next_wal_seq, info.next_segment_seq) == (4, 1)


@pytest.mark.parametrize("with_segment", [True, False])
def test_a_manifest_comes_back_from_segments_or_from_what_is_left_of_it(
    *,
    with_segment: bool,
) -> None:
    disk = store_with_segment()
    store_id = opened(MemoryDisk(disk.tree)).info().store_id
    if not with_segment:
        disk.unlink(SEGMENT)
    text = bytes(disk.map("quiver.json"))
    file = disk.open("quiver.json", writable=True)
    file.write(text.index(store_id.encode()) + 3, b"g")
    (damage,) = mended(disk)[:1]
    assert damage.path.endswith("quiver.json")
    info = opened(disk).info()
    assert not with_segment or info.store_id == store_id
    copies = [entry.name for entry in disk.list_dir("core_0/quarantine")]
    assert any(name.startswith("quiver.json.") for name in copies)


def test_a_slot_table_that_no_log_confirms_is_not_believed() -> None:
    disk = store_with_segment()
    disk.unlink(SEGMENT)
    text = bytes(disk.map("quiver.json"))
    flip(disk, "quiver.json", text.index(b'"notes"') + 2)
    with pytest.raises(DamageError) as caught:
        mended(disk)
    assert caught.value.path.endswith("quiver.json")


def test_a_store_that_is_being_written_is_not_salvaged() -> None:
    disk = store_with_segment()
    store = opened(disk)
    before = disk.tree.digest()
    with pytest.raises(LockedError):
        mended(disk)
    assert disk.tree.digest() == before
    store.append(bundle(4))


def test_finished_segments_are_not_deleted() -> None:
    disk = store_with_segment()
    store = opened(disk)
    taken(store)
    store.flush()
    store._core.acks.sync()
    abandon(store)
    mended(disk)
    assert disk.stat(SEGMENT) is not None
