"""All who take the same batches, in turn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from bench.kit import Bench, clocked, warm
from bench.upsert.delta import Delta, delta_missing, delta_version
from bench.upsert.load import KEY, VALUE, last_of_each, snapshot
from bench.upsert.ours import Ours
from bench.upsert.spark_side import Sparked
from quiver.spark import session

__all__ = ["DELTA", "OURS", "SPARK", "TASKS", "Sides", "bench_session", "sides"]

OURS: Final = "without Spark"
SPARK: Final = "Spark"
TASKS: Final = "Spark as with workers elsewhere"
DELTA: Final = "delta-rs"
_WARM_BYTES: Final = 128 << 20


@contextmanager
def bench_session(folder: Path) -> Iterator[Any]:
    """Start Spark with a gibibyte for the JVM, which is what a small machine can spare."""
    spark = session(
        "quiver bench",
        config={
            "spark.driver.memory": "1g",
            "spark.log.level": "ERROR",
            "spark.local.dir": str(folder / "spark-local"),
            "spark.sql.warehouse.dir": str(folder / "spark-warehouse"),
        },
    )
    try:
        yield spark
    finally:
        spark.stop()


class Sides:
    """The same collection several times; ``take`` says how long each needs for a batch."""

    def __init__(self, bench: Bench, folder: Path, spark: Any) -> None:
        self._folder, self._turn = bench.folder, 0
        self.ours = Ours(folder / "ours")
        self.spark = None if spark is None else Sparked(spark, folder / "spark")
        self.tasks = None if spark is None else Sparked(spark, folder / "tasks", in_tasks=True)
        self.delta = None
        if missing := delta_missing():
            print(f"NOT MEASURED: delta-rs: {missing}", flush=True)
        else:
            bench.versions["deltalake"] = delta_version()
            self.delta = Delta(folder / "delta")

    def load(self, keys: int) -> dict[str, float]:
        """Give each the first rows; seconds of each."""
        seconds = dict.fromkeys((OURS, SPARK, DELTA), 0.0)
        for piece in snapshot(keys):
            seconds[OURS] += clocked(lambda piece=piece: self.ours.take(piece))
            if self.spark is not None:
                seconds[SPARK] += self.spark.take(piece).batch
            if self.tasks is not None:
                self.tasks.take(piece)
            if self.delta is not None:
                seconds[DELTA] += clocked(lambda piece=piece: self.delta.load(piece))
        return seconds

    def take(self, commands: pa.Table) -> dict[str, float]:
        """Give each a batch, another one first each time; seconds of each, and of their parts."""
        acts = [self._ours, *([self._spark, self._in_tasks] if self.spark else [])]
        acts += [self._delta] if self.delta else []
        self._turn += 1
        first = self._turn % len(acts)
        found: dict[str, float] = {}
        for act in acts[first:] + acts[:first]:
            warm(self._folder, _WARM_BYTES)
            found |= act(commands)
        return found

    def _ours(self, commands: pa.Table) -> dict[str, float]:
        took = clocked(lambda: self.ours.take(commands))
        tended = clocked(self.ours.tend)
        return {OURS: took, f"{OURS}, tended": took + tended}

    def _spark(self, commands: pa.Table) -> dict[str, float]:
        assert self.spark is not None
        took = self.spark.take(commands)
        return {SPARK: took.batch, f"{SPARK}, whole": took.trigger}

    def _in_tasks(self, commands: pa.Table) -> dict[str, float]:
        assert self.tasks is not None
        took = self.tasks.take(commands)
        return {TASKS: took.batch, f"{TASKS}, whole": took.trigger}

    def _delta(self, commands: pa.Table) -> dict[str, float]:
        assert self.delta is not None
        unique: list[pa.Table] = []
        reduced = clocked(lambda: unique.append(last_of_each(commands)))
        merged = clocked(lambda: self.delta.merge(unique[0]))
        return {DELTA: merged, f"{DELTA}, reduced": merged + reduced}

    def differing(self) -> list[str]:
        """Name the sides that hold other rows than ours; our own collection is read whole."""
        wanted = self.ours.rows().sort_by(KEY)
        others = {SPARK: self.spark, TASKS: self.tasks, DELTA: self.delta}
        return [
            name
            for name, side in others.items()
            if side is not None and side.rows().select([KEY, VALUE]).sort_by(KEY) != wanted
        ]

    def stop(self) -> None:
        """End what runs."""
        for side in (self.spark, self.tasks):
            if side is not None:
                side.stop()
        self.ours.close()


@contextmanager
def sides(bench: Bench, name: str, *, with_spark: bool) -> Iterator[Sides]:
    """Make the sides in a folder of their own, which goes afterwards."""
    folder = bench.folder / name
    folder.mkdir()
    with ExitStack() as stack:
        spark = stack.enter_context(bench_session(folder)) if with_spark else None
        found = Sides(bench, folder, spark)
        stack.callback(found.stop)
        yield found
