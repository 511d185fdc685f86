"""Give a peer of the bench what it is to give back, in this process or in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from bench.peers import given
from bench.peers.peers import find
from bench.wal.shapes import SLOTS, standard

ROOT = Path(__file__).parents[2]
BUNDLES = [standard(5, seed) for seed in range(3)]
APART = ("lance",)
"""Peers that, once they are loaded, warn at each fork of their process: tests after them fork."""


def give_and_take(name: str, mode: str, folder: Path) -> None:
    """Let a peer keep some bundles, and compare what whoever opens it next reads."""
    kind = find(name)
    for again in (False, True):
        server = kind.serve(folder)
        try:
            peer = kind(folder, mode)
            peer.open()
            if not again:
                for bundle in BUNDLES:
                    peer.append(bundle)
                peer.drain()
                assert peer.acked == len(BUNDLES)
            else:
                first = peer.first()
                assert all(first[slot].num_rows for slot in SLOTS)
                compared = given.in_order if kind.exact else given.in_any_order
                assert compared(BUNDLES, peer.read_all()) == len(BUNDLES)
            peer.close()
        finally:
            if server is not None:
                server.stop()


def apart(name: str, mode: str, folder: Path) -> None:
    """Do the same in a process of its own."""
    places = [str(Path(__file__).parent), str(ROOT), os.environ.get("PYTHONPATH", "")]
    code = (
        "import pathlib, sys, peer_kit\n"
        "peer_kit.give_and_take(*sys.argv[1:3], pathlib.Path(sys.argv[3]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, name, mode, str(folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
