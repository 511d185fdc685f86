"""Raw writing writes what it says: each frame, twice where it has two copies, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.peers import given
from bench.peers.peer import Encoder
from bench.peers.peers import RAW, TWO_COPIES, find
from bench.peers.raw import RawTuned, takes_direct
from bench.wal.shapes import standard

BUNDLES = [standard(5, seed) for seed in range(3)]
APPENDS = 7
WAYS = [(name, mode) for name in RAW for mode in ("group", "each")]


def written(name, mode, folder: Path, byte_count: int = 0) -> bytes:
    """Append some bundles in turn; what the log holds then."""
    if name == "raw-tuned" and not takes_direct(folder):
        pytest.skip("a file system without O_DIRECT")
    peer = find(name)(folder, mode)
    peer.segment_bytes = 1
    peer.open()
    peer.ready(BUNDLES, byte_count)
    for number in range(APPENDS):
        peer.append(BUNDLES[number % len(BUNDLES)])
    peer.drain()
    assert peer.acked == APPENDS
    peer.close()
    return (folder / "log").read_bytes()


@pytest.mark.parametrize("name, mode", WAYS)
def test_what_comes_back_is_what_was_appended_and_no_room_that_was_made_ahead(
    name, mode, tmp_path: Path
):
    written(name, mode, tmp_path, byte_count=1 << 20)
    peer = find(name)(tmp_path, mode)
    assert given.in_order(BUNDLES, peer.read_all()) == APPENDS
    assert set(peer.first()) == set(BUNDLES[0])


@pytest.mark.parametrize("name, mode", WAYS)
def test_segments_are_the_log_once_more(name, mode, tmp_path: Path):
    log = written(name, mode, tmp_path)
    least = APPENDS * sum(len(Encoder().encode(bundle)) for bundle in BUNDLES) // len(BUNDLES)
    assert len(log) >= least
    names = [f"segment-{number}" for number in range(1, APPENDS + 1)]
    copy = b"".join((tmp_path / name).read_bytes() for name in names if name in _in(tmp_path))
    assert copy == (log if name in TWO_COPIES else b"")
    assert not [name for name in _in(tmp_path) if name.endswith(".tmp")]


def _in(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


@pytest.mark.parametrize("name", RAW)
def test_a_frame_that_was_cut_or_changed_ends_the_log(name, tmp_path: Path):
    log = written(name, "group", tmp_path)
    peer = find(name)(tmp_path, "group")
    for cut in (1, 600, 2000):
        (tmp_path / "log").write_bytes(log[:-cut])
        assert given.in_order(BUNDLES, peer.read_all()) <= APPENDS
    (tmp_path / "log").write_bytes(log[: len(log) // 2])
    assert given.in_order(BUNDLES, peer.read_all()) < APPENDS
    (tmp_path / "log").write_bytes(log[:100] + b"\0" + log[101:])
    assert not list(peer.read_all())


def test_a_sync_that_failed_is_told(tmp_path: Path, monkeypatch):
    peer = RawTuned(tmp_path, "each")
    peer._failed = OSError("no disk")
    with pytest.raises(OSError, match="no disk"):
        peer.commit()
