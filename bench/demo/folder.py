"""Where the demo happens: a folder that it may empty, because it made it."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import Final

__all__ = ["Folder", "disk_bytes"]

_MARK: Final = ".quiver-demo"


@dataclass(frozen=True)
class Folder:
    """The places of one run."""

    root: str

    @classmethod
    def prepare(cls, root: str) -> Folder:
        """Make the folder, or empty the one of an earlier run; never one of somebody else."""
        root = os.path.abspath(root)
        if os.path.isdir(root) and os.listdir(root):
            if not os.path.exists(os.path.join(root, _MARK)):
                raise SystemExit(f"{root} is not empty and no earlier demo made it; name another")
            shutil.rmtree(root)
        os.makedirs(root, exist_ok=True)
        with open(os.path.join(root, _MARK), "w", encoding="utf-8") as file:
            file.write("bench.demo empties this folder when it runs again\n")
        return cls(root)

    @property
    def store(self) -> str:
        """The store of the demo."""
        return os.path.join(self.root, "store")

    @property
    def after_kill(self) -> str:
        """The store as one kill left it, untouched by recovery."""
        return os.path.join(self.root, "after-kill")

    @property
    def parquet(self) -> str:
        """What the subscriber ``parquet`` wrote."""
        return os.path.join(self.root, "parquet")

    @property
    def spark(self) -> str:
        """What the Spark job wrote."""
        return os.path.join(self.root, "spark")

    @property
    def spark_log(self) -> str:
        """What Java said."""
        return os.path.join(self.root, "spark.log")

    def keep_after_kill(self) -> None:
        """Copy the store of a dead writer, to be looked at later: the first that has a segment."""
        segments = os.path.join(self.store, "core_0", "segments")
        if not os.path.exists(self.after_kill) and os.listdir(segments):
            shutil.copytree(self.store, self.after_kill)


def disk_bytes(path: str) -> int:
    """Count what the files below a path take on the disk, holes not counted."""
    return sum(
        os.lstat(os.path.join(place, name)).st_blocks * 512
        for place, _, names in os.walk(path)
        for name in names
    )
