"""What all parts of the play have to know: where it is, its limits, and what the commands are."""

from __future__ import annotations

import os
import random
import signal
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from bench.play import Play
from quiver.disk import LocalDisk
from quiver.ship.objects import Bucket, FolderBucket, open_bucket
from quiver.testing.real.watched_disk import WatchedDisk
from quiver.upsert.rows import Definition, Plan, define
from quiver.upsert.tending import Limits

__all__ = ["LIMITS", "PLAN", "SOURCE", "SPLIT", "Setup", "commands", "definition"]

LIMITS: Final = Limits(history=12, live_runs_max=3, past_runs_max=3, fold_rows_min=150)
"""Small, so that something is due all the time."""
PLAN: Final = Plan(key=["id", "part"], order_by=["at"], delete_when="gone")
SOURCE: Final = "feed"
SPLIT: Final = "only"
BUCKETS: Final = 3
_KEYS: Final = 260
_HOT: Final = 6
_PARTS: Final = ("a", "b", None)
_SIZES: Final = (0, 1, 12, 60, 60, 60, 400)


@dataclass(frozen=True)
class Setup(Play):
    """One play."""

    url: str = ""
    """"" for a folder of this machine."""
    options: dict[str, str] = field(default_factory=dict, repr=False)
    grace: float = 3.0
    """Seconds for which what was dropped can still be read."""

    def store(self, who: str, stop_before: int = 0) -> Bucket:
        """Open the store; ``who`` can be told from others by each request.

        In a folder he stands still before so many of his acts, until he is killed; 0: never.
        """
        if self.url:
            return open_bucket(self.url, options=self.options | {"user_agent": who})
        path = os.path.join(self.folder, "collection")
        if not stop_before:
            return FolderBucket(path)

        def before(number: int, _: object) -> bool:
            if number == stop_before:
                os.kill(os.getpid(), signal.SIGSTOP)
            return False

        return FolderBucket(path, disk=WatchedDisk(LocalDisk(path, create=True), before=before))


def commands(life: int, epoch: int) -> pa.Table:
    """Give the commands that a life of the writer appends as an epoch; a key may come often."""
    rng = random.Random(f"{life} {epoch}")
    size = rng.choice(_SIZES)
    rows: dict[str, list[Any]] = {name: [] for name in ("id", "part", "at", "n", "text", "gone")}
    for number in range(size):
        is_hot = rng.random() < 0.2
        rows["id"].append(rng.randrange(_HOT if is_hot else _KEYS))
        rows["part"].append(rng.choices(_PARTS, (12, 4, 1))[0])
        rows["at"].append(rng.randrange(size))
        rows["n"].append(epoch * 1000 + number)
        rows["text"].append(None if rng.random() < 0.1 else f"{life} says {rng.randrange(9)}")
        rows["gone"].append(rng.random() < 0.15)
    return pa.table(rows, schema=_SCHEMA)


_SCHEMA: Final = pa.schema(
    [
        ("id", pa.int64()),
        ("part", pa.string()),
        ("at", pa.int64()),
        ("n", pa.int64()),
        ("text", pa.string()),
        ("gone", pa.bool_()),
    ]
)


def definition() -> Definition:
    """Give what the collection holds."""
    return define(_SCHEMA, PLAN, BUCKETS)
