"""The work behind rows of the report, done again and again so that it can be sampled.

    python -m bench.profiling.works log-1000 FOLDER --seconds 4

Only what happens inside ``measured`` counts, and what other threads do meanwhile.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import quiver
from bench.ingest import ours
from bench.ingest.frame import framed
from bench.kit import ROOT, warm
from bench.opening.opener import until
from bench.peers.store import Quiver
from bench.pipeline import jobs
from bench.pipeline.source import write_text
from bench.segment.finalizes import bundles_for, filled, prepared
from bench.segment.pages import segment_files
from bench.wal import shapes
from quiver.config import Config
from quiver.disk import LocalDisk
from quiver.engine.readers import OpenedSegment
from quiver.segment import SegmentReader

__all__ = ["WORKS", "Work"]

Act = Callable[[Path], Any]
"""Does it in a place that is not there yet."""

_SET_PTRACER: Final = 0x59616D61
"""Of prctl(2): who may look into this process though it is no child of theirs."""
_RATE: Final = 250
_LOG_BYTES: Final = 200_000_000
_EACH: Final = 600
_TEXT_BYTES: Final = 60_000_000
_ENCODED: Final = 2_000
_READINGS: Final = 5


class Work(NamedTuple):
    """What is sampled, and for which rows: parts, and a pattern of their measures."""

    title: str
    rows: dict[str, str]
    prepare: Callable[[Path], Act]
    """Given a folder of its own; what it gives is sampled."""


def measured(act: Act, place: Path) -> Any:
    """Be the frame below which samples count."""
    return act(place)


def _grouped(rows: int, _: Path) -> Act:
    return partial(ours.grouped, bundles=_bundles(rows, _LOG_BYTES))


def _each(_: Path) -> Act:
    return partial(ours.each_synced, bundles=ours.standard(1000, _EACH))


def _whole(rows: int, _: Path) -> Act:
    return partial(ours.whole, bundles=_bundles(rows, _LOG_BYTES))


def _bundles(rows: int, byte_count: int) -> ours.Bundles:
    each = len(ours.frames(ours.standard(rows, 1))[0])
    return ours.standard(rows, byte_count // each)


def _encoding(_: Path) -> Act:
    (bundle,) = ours.standard(1000, 1)
    make = framed(Config(), bundle)

    def act(_: Path) -> None:
        for _number in range(_ENCODED):
            make()

    return act


def _peer(_: Path) -> Act:
    bundles = ours.standard(1000, 2 * _EACH)

    def act(place: Path) -> None:
        place.mkdir()
        store = Quiver(place, "each")
        store.open()
        for bundle in bundles:
            store.append(bundle)
        store.close()

    return act


def _killed(folder: Path) -> Act:
    whole = folder / "killed"
    command = [sys.executable, "-m", "bench.opening.writer", whole, "1000", "1.02", "0"]
    subprocess.run([str(word) for word in command], cwd=ROOT, check=False)

    def act(place: Path) -> Any:
        store = quiver.open(place)
        until(store, "bundle")
        return store

    return partial(_on_a_copy, whole, act)


def _on_a_copy(whole: Path, act: Act, place: Path) -> None:
    """Copy a store, unseen, and do it there; whoever calls this is no ``measured`` frame."""
    shutil.copytree(whole, place)
    measured(act, place).close()


def _finalize(rows: int, _: Path) -> Act:
    bundles = bundles_for(rows)

    def act(place: Path) -> None:
        with prepared(place, bundles) as store:
            measured(lambda _: store.finalize(), place)

    return act


def _finished(folder: Path, rows: int) -> Path:
    store = folder / "finished"
    with filled(store, bundles_for(rows)) as opened:
        opened.finalize()
    return store


def _read(rows: int, folder: Path) -> Act:
    store = _finished(folder, rows)
    (segment,) = segment_files(store)
    disk, path = LocalDisk(store), str(segment.relative_to(store))

    def act(_: Path) -> None:
        for _number in range(_READINGS):
            opened = OpenedSegment(SegmentReader.open(disk, path))
            for index in range(opened.reader.bundle_count):
                opened.bundle(index)

    return act


def _scanned(rows: int, folder: Path) -> Act:
    store = _finished(folder, rows)

    def act(_: Path) -> None:
        for _number in range(_READINGS):
            for slot in shapes.SLOTS:
                quiver.scan(store, slot=slot).to_table()

    return act


def _pipeline(folder: Path) -> Act:
    text = folder / "text.ndjson"
    write_text(text, _TEXT_BYTES)
    return partial(jobs.through_threads, text)


WORKS: Final = {
    "log-100": Work(
        "The log alone, 25 ms, bundles of 100 rows",
        {"ingest": r"log alone.* 100 rows|bundles of 100 rows per second", "peers": r"25 ms, 100 "},
        partial(_grouped, 100),
    ),
    "log-1000": Work(
        "The log alone, 25 ms, bundles of 1,000 rows",
        {"ingest": r"log alone.* 1,000 rows"},
        partial(_grouped, 1000),
    ),
    "log-10000": Work(
        "The log alone, 25 ms, bundles of 10,000 rows",
        {"ingest": r"log alone.* 10,000 rows"},
        partial(_grouped, 10_000),
    ),
    "each-1000": Work(
        "The log alone, a sync for each append of 1,000 rows",
        {"ingest": r"a sync for each|of one synced append"},
        _each,
    ),
    "path-1000": Work(
        "The whole path, 25 ms, bundles of 1,000 rows, segments beside it",
        {
            "ingest": r"whole path, 1,000|percentile .* (append while|to durable)|, 1,000 rows$",
            "peers": r"^25 ms, 1,000 rows",
        },
        partial(_whole, 1000),
    ),
    "path-10000": Work(
        "The whole path, 25 ms, bundles of 10,000 rows, segments beside it",
        {"ingest": r"whole path, 10,000|, 10,000 rows$"},
        partial(_whole, 10_000),
    ),
    "encode-1000": Work(
        "An entry of a bundle of 1,000 rows, in memory",
        {"ingest": r"entry of a bundle"},
        _encoding,
    ),
    "peers-each-1000": Work(
        "The whole path, a sync for each append of 1,000 rows",
        {"peers": r"^a sync for each append"},
        _peer,
    ),
    "killed": Work(
        "Opening after kill -9 with a full open segment, until the first bundle",
        {"opening": r"kill -9"},
        _killed,
    ),
    "read-1000": Work(
        "A warm segment of bundles of 1,000 rows, opened anew, bundle by bundle",
        {"opening": r"memcpy by bundle by bundle"},
        partial(_read, 1000),
    ),
    "finalize-1000": Work(
        "The end of a segment of bundles of 1,000 rows",
        {"segment": r"^finalize|percentile of append during"},
        partial(_finalize, 1000),
    ),
    "scan-1000": Work(
        "A new scan of a warm segment of bundles of 1,000 rows",
        {"segment": r"1,000 rows: .* by to_", "acks": r"a new scan of a warm store"},
        partial(_scanned, 1000),
    ),
    "pipeline": Work(
        "NDJSON to Parquet through a store, the sink in a thread of its own",
        {"pipeline": r"time with a store"},
        _pipeline,
    ),
}
"""What is sampled for which rows; a row that misses its goal and is in none is told on the page."""

_UNMEASURED: Final = {"killed", "finalize-1000"}
"""Those that call ``measured`` themselves, behind what they prepare each time."""


def sampled(sampler: str, raw: str) -> subprocess.Popen[str]:
    """Let py-spy begin to sample this process; it ends, and writes, when it is interrupted."""
    ctypes.CDLL(None).prctl(_SET_PTRACER, ctypes.c_ulong(-1), 0, 0, 0)
    command = [sampler, "record", "--native", "--threads", "--idle", "--rate", str(_RATE)]
    command += ["--format", "raw", "--output", raw, "--pid", str(os.getpid()), "--duration", "600"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if "Sampling process" in line:
            return process
    raise SystemExit(f"{sampler} does not sample")


def main() -> None:
    """Prepare, then do it for so long."""
    options = argparse.ArgumentParser(prog="bench.profiling.works", description=__doc__)
    options.add_argument("name", choices=WORKS)
    options.add_argument("folder", type=Path)
    options.add_argument("--seconds", type=float, default=4.0)
    options.add_argument("--sampler", help="the py-spy to be sampled by")
    options.add_argument("--raw", help="where it writes to")
    asked = options.parse_args()
    act = WORKS[asked.name].prepare(asked.folder)
    place = asked.folder / "place"
    act(place)  # What is imported and made at its first use is not sampled.
    shutil.rmtree(place, ignore_errors=True)
    warm(asked.folder)
    recording = asked.sampler and sampled(asked.sampler, asked.raw)
    end = time.monotonic() + asked.seconds
    while time.monotonic() < end:
        if asked.name in _UNMEASURED:
            act(place)
        else:
            measured(act, place)
        shutil.rmtree(place, ignore_errors=True)
    if recording:
        recording.send_signal(signal.SIGINT)
        recording.wait()


if __name__ == "__main__":
    main()
