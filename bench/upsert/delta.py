"""The other side: delta-rs, whose MERGE takes the same commands, in this process."""

from __future__ import annotations

import importlib.util
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.upsert.load import GONE, KEY, VALUE, last_of_each

__all__ = ["Delta", "delta_missing", "delta_version"]


def delta_missing() -> str:
    """Say what is missing, or nothing."""
    return "" if importlib.util.find_spec("deltalake") else "pip install deltalake"


def delta_version() -> str:
    """Say which delta-rs it is."""
    return version("deltalake")


class Delta:
    """A table in a folder; each batch is one MERGE."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, commands: pa.Table) -> None:
        """Append rows that are new."""
        from deltalake import write_deltalake

        write_deltalake(str(self._folder), commands.select([KEY, VALUE]), mode="append")

    def merge(self, commands: pa.Table) -> dict[str, Any]:
        """Take a batch that has each key once."""
        from deltalake import DeltaTable

        merger = DeltaTable(str(self._folder)).merge(
            commands.select([KEY, VALUE, GONE]),
            predicate=f"t.{KEY} = s.{KEY}",
            source_alias="s",
            target_alias="t",
        )
        merger = merger.when_matched_delete(f"s.{GONE}")
        merger = merger.when_matched_update({VALUE: f"s.{VALUE}"})
        merger = merger.when_not_matched_insert(
            {KEY: f"s.{KEY}", VALUE: f"s.{VALUE}"}, predicate=f"not s.{GONE}"
        )
        return merger.execute()

    def take(self, commands: pa.Table) -> None:
        """Take a batch as it comes."""
        self.merge(last_of_each(commands))

    def rows(self) -> pa.Table:
        """Read all rows."""
        from deltalake import DeltaTable

        return DeltaTable(str(self._folder)).to_pyarrow_table()

    def drop(self) -> None:
        """Remove it."""
        shutil.rmtree(self._folder, ignore_errors=True)
