"""What a collection holds, and the shape of its rows in files and between processes.

Key and value are one struct column each, so that no column of theirs meets one of ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

__all__ = ["BASE_COLUMNS", "DIFF", "ERROR", "HASH", "KEY", "TIME", "VALUE", "Definition"]

HASH: Final = "hash"
"""uint64 of the key: by it rows are sorted, and spread among buckets."""
KEY: Final = "key"
VALUE: Final = "value"
"""A struct, null where the row is an error."""
ERROR: Final = "error"
"""Text, null where the row is a good one."""
TIME: Final = "time"
"""uint64: the epoch at which a difference holds."""
DIFF: Final = "diff"
"""int64: +1 or -1."""
BASE_COLUMNS: Final = (HASH, KEY, VALUE, ERROR)


@dataclass(frozen=True, slots=True)
class Definition:
    """Which columns are the key and which the value, and among how many buckets keys are spread."""

    key: pa.Schema
    value: pa.Schema
    buckets: int

    @property
    def state(self) -> pa.Schema:
        """The schema of rows that are: hash, key, value, error."""
        return pa.schema(
            [
                pa.field(HASH, pa.uint64(), nullable=False),
                pa.field(KEY, pa.struct(list(self.key)), nullable=False),
                pa.field(VALUE, pa.struct(list(self.value))),
                pa.field(ERROR, pa.string()),
            ]
        )

    @property
    def diffs(self) -> pa.Schema:
        """The schema of rows that come and go: the same with time and diff."""
        return self.state.append(pa.field(TIME, pa.uint64(), nullable=False)).append(
            pa.field(DIFF, pa.int64(), nullable=False)
        )
