"""The golden files of the first version, and the page that describes them."""

from __future__ import annotations

import re
from pathlib import Path

from quiver.disk import LocalDisk
from quiver.ipc import decode_stream
from quiver.slots import SlotTable
from quiver.wal import Place, Replay, sidecar
from quiver.wal import format as wal

GOLDEN = Path(__file__).parents[1] / "golden/v1/wal"
PAGE = Path(wal.__file__).with_name("FORMAT.md").read_text()


def test_the_golden_log_reads_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "wal").mkdir()
    (tmp_path / "wal/quiver.wal").write_bytes((GOLDEN / "quiver.wal").read_bytes())
    replay = Replay(
        LocalDisk(tmp_path),
        "wal",
        digest=SlotTable.of(["events", "notes"]).digest(),
        entry_bytes_max=1 << 20,
        covered_seq=40,
        quarantine="quarantine",
    )
    first, second = (bundle for bundle, _ in replay)
    assert replay.damage == []
    assert (first.wal_seq, second.wal_seq) == (41, 42)
    assert first.ingestion_ns == 1_357_000_000_000_000_000
    assert [p.slot_id for p in second.payloads] == [0, 1]
    values = [decode_stream(p.data, rows=p.row_count).to_pydict() for p in second.payloads]
    assert values == [{"x": [2, 3]}, {"s": ["a", None]}]


def test_the_golden_sidecar_reads_as_it_was_written() -> None:
    data = (GOLDEN / "truncate.offset").read_bytes()
    assert sidecar.decode_sidecar(data) == Place(7, 0x189)


def test_the_hex_dump_of_the_page_is_the_golden_file() -> None:
    dump = PAGE.split("## 3.")[1].split("## 4.")[0]
    log, sidecar = dump.split("truncate.offset\n")
    for text, name in ((log, "quiver.wal"), (sidecar, "truncate.offset")):
        data = (GOLDEN / name).read_bytes()
        lines = re.findall(r"^ {4}([0-9a-f]{6})  ((?:[0-9a-f]{2} )+)", text, re.MULTILINE)
        assert lines
        for offset, digits in lines:
            start, shown = int(offset, 16), bytes.fromhex(digits)
            assert data[start : start + len(shown)] == shown, f"{name} at {offset}"


def test_the_golden_file_that_was_used_before_has_one_bundle_and_nothing_older(tmp_path) -> None:
    (tmp_path / "wal").mkdir()
    data = (GOLDEN.with_name("reused") / "quiver.wal.9").read_bytes()
    (tmp_path / "wal/quiver.wal").write_bytes(data)
    replay = Replay(
        LocalDisk(tmp_path),
        "wal",
        digest=SlotTable.of(["events", "notes"]).digest(),
        entry_bytes_max=1 << 20,
        covered_seq=42,
        quarantine="quarantine",
    )
    [(bundle, place)] = replay
    assert (replay.damage, bundle.wal_seq) == ([], 43)
    assert place.generation == 9
    assert len(data) > place.offset + 500
    [events] = bundle.payloads
    assert decode_stream(events.data, rows=3).to_pydict() == {"x": [4, 5, 6]}
