"""What came out against what was appended, value for value; and what may be deleted by now."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.demo_stream.writer import SCHEMA, expected
from quiver.checkpoint import CheckpointFolder
from quiver.disk import LocalDisk
from quiver.errors import QuiverError
from quiver.segment import parse_segment_name

__all__ = ["Outcome", "committed", "compare", "deleted_early", "read_sink", "sink_files"]

_KEYS: Final = [("core", "ascending"), ("n", "ascending")]


@dataclass
class Outcome:
    """How many rows went in and came out, and what is wrong with them."""

    rows_in: int = 0
    rows_out: int = 0
    lost: int = 0
    twice: int = 0
    differ: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def is_exact(self) -> bool:
        """Whether what came out is what went in."""
        return not (self.lost or self.twice or self.differ or self.problems)


def sink_files(sink: str) -> list[str]:
    """List the files that a sink's log names, which is what it holds; each once."""
    log = os.path.join(sink, "_spark_metadata")
    paths: set[str] = set()
    for name in os.listdir(log):
        if name.removesuffix(".compact").isdigit():
            with open(os.path.join(log, name), encoding="utf-8") as file:
                lines = file.read().splitlines()[1:]
            paths |= {unquote(urlsplit(json.loads(line)["path"]).path) for line in lines}
    return sorted(paths)


def read_sink(sink: str) -> pa.Table:
    """Read what a file sink holds as Spark does."""
    tables = [pq.read_table(path, partitioning=None) for path in sink_files(sink)]
    return pa.concat_tables([SCHEMA.empty_table(), *(t.cast(SCHEMA) for t in tables)])


def compare(sink: str, bundles: dict[int, int]) -> Outcome:
    """Compare the sink with the bundles of each core."""
    wanted = pa.concat_tables([expected(core, count) for core, count in bundles.items()])
    found = read_sink(sink)
    outcome = Outcome(wanted.num_rows, found.num_rows)
    keys = [found.column(name) for name, _ in _KEYS]
    distinct = pa.table(keys, names=["core", "n"]).group_by(["core", "n"]).aggregate([])
    outcome.twice = found.num_rows - distinct.num_rows
    missing = wanted.join(distinct, ["core", "n"], join_type="left anti")
    outcome.lost = missing.num_rows
    if not (outcome.twice or outcome.lost):
        wanted, found = wanted.sort_by(_KEYS), found.sort_by(_KEYS)
        if wanted.num_rows != found.num_rows:
            outcome.problems.append("there are rows that nobody appended")
        else:
            outcome.differ = sum(
                pc.sum(pc.invert(_same(wanted.column(name), found.column(name)))).as_py() or 0
                for name in wanted.column_names
            )
    return outcome


def _same(left: pa.ChunkedArray, right: pa.ChunkedArray) -> pa.ChunkedArray:
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.or_(both_null, pc.fill_null(pc.equal(left, right), fill_value=False))


def committed(checkpoint: str) -> dict[int, int]:
    """Say below which segment of each core all is committed, as the checkpoint has it."""
    folder = CheckpointFolder(checkpoint)
    try:
        for batch in reversed(folder.committed()):
            try:
                splits = folder.offsets(batch)[0]["splits"]
            except (QuiverError, IndexError):
                continue
            return {int(name[5:]): place["segment_seq"] for name, place in splits.items()}
        return {}
    finally:
        folder.close()


def deleted_early(store: str, checkpoint: str, *, cores: int) -> list[str]:
    """List the segments that are gone although no commit had them.

    What is there is looked up before the commits: so a commit and its deletions in between are
    no finding.
    """
    found = []
    disk = LocalDisk(store)
    try:
        there = {core: _segments(disk, core) for core in range(cores)}
    finally:
        disk.close()
    done = committed(checkpoint)
    for core, seqs in there.items():
        upto = done.get(core, 0)
        gone = [seq for seq in range(upto, max(seqs, default=-1)) if seq not in seqs]
        found += [f"segment {seq} of core {core} went before it was committed" for seq in gone]
    return found


def _segments(disk: LocalDisk, core: int) -> set[int]:
    folder = f"core_{core}/segments"
    if disk.stat(folder) is None:
        return set()
    numbers = {parse_segment_name(stat.name) for stat in disk.list_dir(folder)}
    return {number for number in numbers if number is not None}
