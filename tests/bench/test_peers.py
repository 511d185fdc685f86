"""Each peer of the bench gives back what it was given, also to the next process that opens it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from bench.peers import given
from bench.peers.peer import Peer
from bench.peers.peers import MODULES, find, missing, modes
from bench.peers.runs import Side, check
from bench.wal.shapes import SLOTS, standard

BUNDLES = [standard(5, seed, narrow=True) for seed in range(3)]
EVERYBODY = [(name, mode) for name in MODULES for mode in modes(name)]


def plain(batch: pa.RecordBatch | pa.Table) -> list[dict]:
    """Give rows as values that do not depend on how a peer keeps its types."""
    return [{k: v for k, v in row.items() if k != "time"} for row in batch.to_pylist()]


def read(peer: Peer) -> tuple[dict[str, list[dict]], dict[str, set[pa.Schema]]]:
    """Read all; views are not kept."""
    rows: dict[str, list[dict]] = {slot: [] for slot in SLOTS}
    schemas: dict[str, set[pa.Schema]] = {slot: set() for slot in SLOTS}
    for bundle in peer.read_all():
        for slot, batch in bundle.items():
            rows[slot] += plain(batch)
            schemas[slot].add(batch.schema)
    return rows, schemas


@pytest.mark.parametrize("name, mode", EVERYBODY)
def test_a_peer_gives_back_what_it_was_given(name, mode, tmp_path: Path):
    if why := missing(name):
        pytest.skip(f"{name}: {why}")
    kind = find(name)
    for again in (False, True):
        server = kind.serve(tmp_path)
        try:
            peer = kind(tmp_path, mode)
            peer.open()
            if not again:
                for bundle in BUNDLES:
                    peer.append(bundle)
                peer.drain()
                assert peer.acked == len(BUNDLES)
            else:
                first = peer.first()
                assert all(first[slot].num_rows for slot in SLOTS)
                rows, schemas = read(peer)
            peer.close()
        finally:
            if server is not None:
                server.stop()
    order = (lambda row: 0) if kind.exact else (lambda row: sorted(map(repr, row.items())))
    for slot in SLOTS:
        rows_given = [row for bundle in BUNDLES for row in plain(bundle[slot])]
        assert sorted(rows[slot], key=order) == sorted(rows_given, key=order)
        if kind.exact:
            assert schemas[slot] == {BUNDLES[0][slot].schema}


def test_a_bundle_that_is_missing_is_noticed(tmp_path: Path):
    place = tmp_path / "given-5"
    given.prepare(place, 5)
    bundles = given.load(place)
    back = given.sums([*bundles, *bundles[:3]])
    acked = len(bundles) + 3
    side = Side("lmdb", "each", 5)
    check(side, place, {"acked": acked, "appended": acked + 3}, back)
    check(side, place, {"acked": acked - 2, "appended": acked}, back)
    for wrong in ((acked + 1, acked + 3), (acked - 2, acked - 1)):
        with pytest.raises(AssertionError, match="came back"):
            check(side, place, dict(zip(("acked", "appended"), wrong, strict=True)), back)
    other = given.sums([*bundles, *bundles[1:4]])
    with pytest.raises(AssertionError, match="came back"):
        check(side, place, {"acked": acked, "appended": acked}, other)
