"""Starts runs, one at a time, each in a folder of its own, and sees that nothing is left."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.kit import ROOT
from bench.peers.peer import Mode

__all__ = ["MARK", "Side", "count_syncs", "measure"]

PATIENCE: Final = 120
TRACED: Final = 20
MARK: Final = 999_999
"""No such file is open: a sync of it fails, and shows in a trace."""

# Memory that is free is kept for what comes: LMDB took fresh pages for each commit without this, at
# the price of a third of its speed; it does nobody any harm.
_MALLOC: Final = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TOP_PAD_": str(64 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(4 << 30),
}
_SYNCS: Final = "fsync,fdatasync,msync,sync_file_range,syncfs,sync"


class Side(NamedTuple):
    """A peer in one of its ways, and the size of its bundles."""

    peer: str
    mode: Mode
    rows: int


def _child(command: list[str], *, killed: bool) -> dict[str, Any]:
    """Run a child with its own process group; what it printed."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | _MALLOC,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, errors = process.communicate(timeout=PATIENCE)
    finally:
        with contextlib.suppress(ProcessLookupError):  # Nobody is left, as it should be.
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.returncode != (-signal.SIGKILL if killed else 0):
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}: {errors}")
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def _command(act: str, side: Side, *, place: Path, given_in: Path) -> list[str]:
    command = [sys.executable, "-m", "bench.peers.run", act, side.peer, side.mode]
    return [*command, "--given", str(given_in), "--folder", str(place)]


def measure(side: Side, folder: Path, *, seconds: float, byte_count: float) -> dict[str, Any]:
    """Append, kill, open and read; everything found of it."""
    place, bundles = folder / "peer", folder / f"given-{side.rows}"
    place.mkdir()
    try:
        os.sync()  # Nobody pays for what another one wrote.
        limits = ["--seconds", str(seconds), "--bytes", str(byte_count)]
        command = _command("append", side, place=place, given_in=bundles)
        found = _child([*command, *limits], killed=True)
        on_disk = sum(file.lstat().st_blocks * 512 for file in place.rglob("*"))
        back = _child(_command("read", side, place=place, given_in=bundles), killed=False)
    finally:
        shutil.rmtree(place)
    check(side, found, back["bundles"])
    total = found["appended"] * found["bundle_bytes"]
    more = {
        "disk_per_byte": on_disk / total,
        "opened_ms": back["opened_ms"],
        "read_rate": total / 1e6 / back["read_seconds"],
    }
    return found | more


def check(side: Side, found: dict[str, Any], bundles: int) -> None:
    """Raise if anything acked is missing after the kill, or anything is there that was not given.

    A kill leaves what the kernel had, so this holds for those that sync nothing as well.
    """
    if not found["acked"] <= bundles <= found["appended"]:
        raise AssertionError(f"{side}: acked {found['acked']}, came back {bundles}")


def count_syncs(side: Side, folder: Path) -> float | None:
    """Count the calls of one append that wait for the disk; None where nothing can be traced."""
    strace = shutil.which("strace")
    if strace is None or subprocess.run([strace, "-o", os.devnull, "true"], check=False).returncode:
        return None
    place, trace = folder / "peer", folder / "trace"
    place.mkdir()
    command = _command("append", side, place=place, given_in=folder / f"given-{side.rows}")
    wrapped = [strace, "-f", "-qq", "-e", f"trace={_SYNCS}", "-e", "signal=none", "-o", str(trace)]
    try:
        _child([*wrapped, *command, "--count", str(TRACED)], killed=False)
        lines = trace.read_text().splitlines()
    finally:
        shutil.rmtree(place)
        trace.unlink(missing_ok=True)
    marks = [at for at, line in enumerate(lines) if f"fsync({MARK}" in line]
    begin, end = marks
    return sum("resumed>" not in line for line in lines[begin + 1 : end]) / TRACED
