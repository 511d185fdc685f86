"""Recovered bundles stay where they lie, in the files of the log, until a segment has them."""

from __future__ import annotations

import gc
from pathlib import Path

import pyarrow as pa
import pytest
from wal_kit import DIGEST, LIMIT, SIZE, Folder, bundle, start_of

import quiver
from quiver.config import Config
from quiver.payload import EncodedBundle
from quiver.wal import Place, Replay

SLOTS = {"main": 0}
PIECE = 4096


def batch(number: int, rows: int = 2000) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(number * rows, (number + 1) * rows))})


def mappings(folder: Path) -> list[str]:
    """Files below the folder that this process maps."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return [line for line in lines if str(folder) in line]


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quiver.wal.mapped._PIECE", PIECE)


def replay(place: Folder, covered: int | None = None) -> list[EncodedBundle]:
    found = Replay(
        place.disk,
        "wal",
        digest=DIGEST,
        entry_bytes_max=LIMIT,
        covered_seq=covered,
        quarantine="quarantine",
    )
    return [item for item, _ in found]


@pytest.mark.usefixtures("small_pieces")
def test_entries_of_any_size_are_whole_wherever_a_piece_ends(place: Folder) -> None:
    sizes = [100, PIECE - SIZE, PIECE, 1, 3 * PIECE + 7, *[1000] * 20, PIECE + 1]
    log, _ = place.open(rotate_size=6 * PIECE)
    for seq, size in enumerate(sizes):
        log.append(bundle(seq, size))
    log.sync_all()
    log.close()
    assert len(place.names()) > 1
    found = replay(place)
    assert [bytes(b.payloads[0].data) for b in found] == [
        bytes(bundle(seq, size).payloads[0].data) for seq, size in enumerate(sizes)
    ]


def test_a_recovered_bundle_is_a_view_of_the_log_and_not_a_copy(place: Folder) -> None:
    place.fill(3)
    found = replay(place)
    assert len(mappings(place.root)) == 1
    assert all(item.payloads[0].data.obj is found[0].payloads[0].data.obj for item in found)
    del found
    assert mappings(place.root) == []


def test_what_segments_hold_is_not_mapped(place: Folder) -> None:
    place.fill(3)
    assert replay(place, covered=2) == []
    assert mappings(place.root) == []


@pytest.mark.usefixtures("small_pieces")
def test_recovered_bundles_outlive_rotation_reclaiming_and_their_files(place: Folder) -> None:
    places = place.fill(12)
    found = replay(place)
    log, _ = place.open(rotate_size=SIZE * 12, reclaim_size=1)
    for seq in range(12, 30):
        log.append(bundle(seq))
    log.truncate(places[5])
    log.sync_all()
    log.close()
    for path in (place.root / "wal").iterdir():
        path.unlink()
    # A place before which segments hold everything was given: nobody holds those bundles then.
    wanted = [bundle(seq).payloads[0].data for seq in range(6, 12)]
    assert [bytes(item.payloads[0].data) for item in found[6:]] == wanted


@pytest.mark.parametrize("reclaim", ["punch", "copy"])
def test_a_store_recovers_appends_finalizes_and_reads_what_was_mapped(
    tmp_path: Path, reclaim: str
) -> None:
    config = Config.of({"wal": {"reclaim": reclaim, "reclaim_size": 1}})
    first = quiver.open(tmp_path, slots=SLOTS, config=config, worker=False)
    first.subscribe("a")
    for number in range(5):
        first.append({"main": batch(number)})
    first._core.held.release()  # As if it was killed.
    first._closed = True
    del first
    gc.collect()
    store = quiver.open(tmp_path, config=config, worker=False)
    assert store.recovery.replayed_bundles == 5
    assert len(mappings(tmp_path / "core_0" / "wal")) == 1
    store.append({"main": batch(5)})
    store.finalize()
    assert mappings(tmp_path / "core_0" / "wal") == []
    store.maintain()
    with store:
        rows = []
        subscription = store.subscribe("a")
        while (handle := subscription.poll()) is not None:
            rows += handle["main"]["n"].to_pylist()
            handle.ack()
    assert rows == list(range(12_000))


def test_a_closed_store_maps_nothing_of_its_log(tmp_path: Path) -> None:
    first = quiver.open(tmp_path, slots=SLOTS, worker=False)
    first.append({"main": batch(0)})
    first._core.held.release()
    first._closed = True
    store = quiver.open(tmp_path, worker=False)
    assert mappings(tmp_path / "core_0" / "wal") != []
    store._core.fault = OSError("no finalize from now on")
    store.close()
    assert mappings(tmp_path / "core_0" / "wal") == []


def test_the_end_of_the_log_may_be_cut_while_the_rest_is_mapped(place: Folder) -> None:
    place.fill(3)
    path = place.root / "wal/quiver.wal"
    path.write_bytes(path.read_bytes() + path.read_bytes()[start_of(2) : -10])
    found = Replay(place.disk, "wal", digest=DIGEST, entry_bytes_max=LIMIT, quarantine="quarantine")
    kept = [item for item, _ in found]
    log = found.finish(quiver.config.WalConfig())
    assert found.torn is not None
    log.append(bundle(3))
    log.sync_all()
    assert [bytes(item.payloads[0].data) for item in kept] == [
        bundle(seq).payloads[0].data for seq in range(3)
    ]
    assert log.end == Place(1, path.stat().st_size)
    log.close()
