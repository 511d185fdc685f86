"""What an opening finds after a stop of any kind, and what it does about damage."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow as pa
import pytest
from store_kit import abandon, bundle, numbers

import quiver
from quiver.ipc import encode_stream
from quiver.payload import EncodedBundle, Payload
from quiver.wal.format import encode_bundle


def wal(path: Path) -> Path:
    return path / "core_0/wal/quiver.wal"


def quarantine(path: Path) -> list[str]:
    folder = path / "core_0/quarantine"
    return sorted(p.name for p in folder.iterdir()) if folder.exists() else []


def flip(path: Path, offset: int) -> None:
    path.chmod(0o600)
    data = bytearray(path.read_bytes())
    data[offset] ^= 0xFF
    path.write_bytes(data)


def test_bundles_that_no_segment_holds_come_back_after_a_kill(opener) -> None:
    store = opener()
    for n in range(3):
        store.append(bundle(n))
    store.finalize()
    for n in range(3, 6):
        store.append(bundle(n))
    abandon(store)
    store = opener()
    assert store.recovery.replayed_bundles == 3
    assert store.info().open_bundles == 3
    store.finalize()
    assert numbers(store) == list(range(6))


def test_a_replay_across_rotated_files_brings_all(opener, path: Path) -> None:
    store = opener({"wal": {"rotate_size": 2000}})
    for n in range(30):
        store.append(bundle(n))
    assert len(list(wal(path).parent.iterdir())) > 5
    abandon(store)
    store = opener()
    assert store.recovery.replayed_bundles == 30
    store.finalize()
    assert numbers(store) == list(range(30))
    assert [p.name for p in wal(path).parent.glob("quiver.wal*")] == ["quiver.wal"]


def test_a_replay_past_the_segment_size_finalizes_on_the_way(opener) -> None:
    store = opener()
    for n in range(60):
        store.append(bundle(n))
    abandon(store)
    store = opener({"segment": {"target_size": 5000}})
    assert store.info().segments > 3
    assert store.info().open_bytes < 2 * 6000  # One is full, and the next has begun.
    store.finalize()
    assert numbers(store) == list(range(60))


def test_a_missing_or_empty_log_opens_clean(opener, path: Path) -> None:
    opener().close()
    wal(path).unlink()
    store = opener()
    store.append(bundle(0))
    abandon(store)
    assert opener().recovery.replayed_bundles == 1


def test_a_cut_tail_is_cut_off_and_the_next_append_reads_back(opener, path: Path) -> None:
    store = opener()
    for n in range(3):
        store.append(bundle(n))
    abandon(store)
    with wal(path).open("r+b") as file:
        file.truncate(wal(path).stat().st_size - 7)
    store = opener()
    assert isinstance(store.recovery.torn_tail, quiver.TornEntry)
    assert store.recovery.damage == []
    store.append(bundle(2))
    abandon(store)
    store = opener()
    store.finalize()
    assert numbers(store) == [0, 1, 2]


def test_a_damaged_entry_is_set_aside_and_those_around_it_come_back(opener, path: Path) -> None:
    store = opener()
    for n in range(4):
        store.append(bundle(n))
    abandon(store)
    flip(wal(path), 1200)
    store = opener()
    (error,) = store.recovery.damage
    assert error.path == str(wal(path))
    assert store.recovery.replayed_bundles == 3
    assert len(quarantine(path)) == 2
    store.finalize()
    found = numbers(store)
    assert len(found) == 3
    assert set(found) < {0, 1, 2, 3}


@pytest.mark.parametrize("state", ["missing", "garbage"])
def test_a_lost_sidecar_costs_no_data_and_doubles_none(opener, path: Path, state: str) -> None:
    store = opener()
    for n in range(4):
        store.append(bundle(n))
    store.finalize()
    store.append(bundle(4))
    abandon(store)
    sidecar = wal(path).with_name("truncate.offset")
    if state == "missing":
        sidecar.unlink()
    else:
        sidecar.write_bytes(os.urandom(32))
    store = opener()
    store.finalize()
    assert numbers(store) == [0, 1, 2, 3, 4]


def alien(seq: int, data: bytes, rows: int = 1, slot: int = 0) -> bytes:
    return encode_bundle(EncodedBundle(seq, 0, (Payload(slot, slot, bytes(32), rows, data),)))


@pytest.mark.parametrize(
    "entry",
    [
        alien(2, b"no arrow at all"),
        alien(2, bytes(encode_stream(pa.record_batch({"n": [1]}))), rows=5),
        alien(2, bytes(encode_stream(pa.record_batch({"n": [1]}))), slot=40),
        encode_bundle(EncodedBundle(2, 0, ())),
    ],
    ids=["not arrow", "row count lies", "unknown slot", "no slot"],
)
def test_an_entry_that_cannot_be_decoded_costs_only_itself(
    opener, path: Path, entry: bytes
) -> None:
    store = opener()
    store.append(bundle(0))
    store.append(bundle(1))
    abandon(store)
    with wal(path).open("ab") as file:
        file.write(entry + encode_bundle_of(3))
    store = opener()
    store.finalize()
    assert [type(error) for error in store.recovery.damage] == [quiver.DamagedEntry]
    assert "bundle 2" in str(store.recovery.damage[0])
    assert quarantine(path) == ["bundle-2.bin", "bundle-2.bin.json"]
    assert store.recovery.replayed_bundles == 3
    assert numbers(store) == [0, 1, 3]


def test_a_log_of_nothing_but_what_cannot_be_decoded_becomes_no_segment(opener, path: Path) -> None:
    store = opener()
    abandon(store)
    with wal(path).open("ab") as file:
        file.write(alien(0, b"no arrow at all") + alien(1, b"nor this"))
    for _ in range(2):
        store = opener()
        assert store.finalize() is None
        assert store.info().segments == 0
        assert store.info().next_wal_seq == 2
        abandon(store)
    assert len(quarantine(path)) == 4
    store = opener()
    assert store.recovery.replayed_bundles == 0
    assert store.append(bundle(2)) == 2


def encode_bundle_of(number: int) -> bytes:
    payloads = tuple(
        Payload(slot, slot, bytes(32), batch.num_rows, bytes(encode_stream(batch)))
        for slot, batch in enumerate(bundle(number).values())
    )
    return encode_bundle(EncodedBundle(number, 0, payloads))


def test_an_equal_fingerprint_with_another_schema_never_blocks_an_opening(
    opener, path: Path
) -> None:
    opener().close()
    first = pa.record_batch({"n": pa.array([5], pa.int64())})
    other = pa.record_batch({"m": pa.array(["x"])})
    with wal(path).open("ab") as file:
        file.write(alien(0, bytes(encode_stream(first))) + alien(1, bytes(encode_stream(other))))
    store = opener()
    assert store.recovery.damage == []
    store.finalize()
    subscription = store.subscribe("reader")
    for expected in (first, other):
        with subscription.poll() as handle:
            assert handle["events"].equals(expected)


def test_a_damaged_segment_is_set_aside_and_the_rest_flows_and_is_cleaned(
    opener, path: Path
) -> None:
    with opener() as store:
        for n in range(3):
            store.append(bundle(n))
            store.finalize()
    victim = path / "core_0/segments/0000000000000001.qseg"
    flip(victim, 100)
    with opener() as store:
        assert numbers(store) == [0, 2]
        assert store.maintain() == 3
        assert store.metrics()["quiver.subscriber.dropped_bundles", "reader"] == 1
        assert isinstance(store.recovery.damage[0], quiver.DamageError)
    assert quarantine(path) == [victim.name, f"{victim.name}.json"]
    reason = json.loads((path / "core_0/quarantine" / f"{victim.name}.json").read_text())
    assert reason["path"] == str(victim)


@pytest.mark.parametrize("from_end", [1, 10, 60, 100])
def test_a_segment_with_a_damaged_end_never_stops_an_opening(
    opener, path: Path, from_end: int
) -> None:
    with opener() as store:
        for n in range(3):
            store.append(bundle(n))
            store.finalize()
    victim = path / "core_0/segments/0000000000000001.qseg"
    flip(victim, victim.stat().st_size - from_end)
    with opener() as store:
        found = numbers(store)
        assert set(found) >= {0, 2}
        store.append(bundle(3))
        assert store.finalize().segment_seq == 3
        assert numbers(store) == [3]


def test_a_segment_that_vanished_does_not_block_the_others(opener, path: Path) -> None:
    store = opener()
    for n in range(3):
        store.append(bundle(n))
        store.finalize()
    (path / "core_0/segments/0000000000000001.qseg").unlink()
    assert numbers(store) == [0, 2]


def test_unfinished_files_are_removed_and_foreign_ones_left_alone(opener, path: Path) -> None:
    opener().close()
    ours = path / "core_0/segments/0000000000000007.qseg.tmp"
    theirs = path / "core_0/segments/notes.txt"
    ours.write_bytes(b"half")
    theirs.write_bytes(b"whole")
    opener().close()
    assert not ours.exists()
    assert theirs.read_bytes() == b"whole"


def test_a_crash_between_segment_and_sidecar_gives_no_duplicates(
    opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opener()
    for n in range(3):
        store.append(bundle(n))

    def stop(*_args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("quiver.wal.log.write_sidecar", stop)
    with pytest.raises(KeyboardInterrupt):
        store.finalize()
    monkeypatch.undo()
    abandon(store)
    store = opener()
    assert store.recovery.replayed_bundles == 0
    assert store.recovery.skipped_bundles == 3
    assert numbers(store) == [0, 1, 2]


WRITER = """
    import sys, quiver
    sys.path.insert(0, sys.argv[2])
    from store_kit import SLOTS, bundle
    store = quiver.open(sys.argv[1], slots=SLOTS, config={"segment": {"target_size": 8000}})
    start = store.info().next_wal_seq
    for n in range(start, start + 100000):
        assert store.append(bundle(n)) == n
        print(n, flush=True)
"""


def test_a_killed_process_loses_nothing_that_it_was_told(path: Path) -> None:
    kit = str(Path(__file__).parents[1] / "kit")
    acknowledged = -1
    for stop_after in (1, 40, 7, 90, 23):
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(WRITER), str(path), kit],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        for _ in range(stop_after):
            acknowledged = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().split()
        acknowledged = int(rest[-1]) if rest else acknowledged
        process.stdout.close()
        assert process.wait() == -signal.SIGKILL
    with quiver.open(path, worker=False) as store:
        store.finalize()
        found = numbers(store)
    assert found == list(range(len(found)))
    assert len(found) in (acknowledged + 1, acknowledged + 2)
