"""The slot of the store, and what its columns are for."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from quiver import Slot

__all__ = ["ASK", "CANCELLED", "COLUMNS", "KEY", "ORDER", "SLOT", "SLOTS"]

SLOT: Final = "board"
SLOTS: Final = (Slot(0, SLOT, 0),)
KEY: Final = ["tailnum", "day"]
ORDER: Final = "n"
"""Numbers all commands of the year: of two for one key the greater is the later."""
CANCELLED: Final = "cancelled"
ASK: Final = "ask"
"""The file by which the query is asked to read the collection back."""
COLUMNS: Final = pa.schema(
    [
        ("tailnum", pa.string()),
        ("day", pa.date32()),
        ("n", pa.int64()),
        ("status", pa.string()),
        ("flight", pa.string()),
        ("origin", pa.string()),
        ("dest", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("late", pa.int64()),
        ("legs", pa.int64()),
        ("miles", pa.int64()),
        ("cancelled", pa.bool_()),
    ]
)
