"""The page of the log's format says what the code does."""

from __future__ import annotations

import re
import struct
from pathlib import Path

from quiver.wal import format as wal
from quiver.wal import reuse, sidecar

PAGE = Path(wal.__file__).with_name("FORMAT.md").read_text()
CODES = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i64": "q"}


def test_the_tables_of_the_page_are_the_structs_of_the_code() -> None:
    names = ("HEADER", "HEAD", "BLOCK", "CHECKPOINT_BODY", "SIDECAR", "MARK")
    for name in names:
        table = re.search(rf"\(`{name}`\)\n\n(.*?)\n\n", PAGE, re.DOTALL)
        assert table is not None
        layout, end = "<", 0
        for row in table[1].splitlines()[2:]:
            offset, size, kind = (cell.strip() for cell in row.split("|")[1:4])
            assert int(offset) == end, f"{name} has a gap at {end}"
            end += int(size)
            layout += CODES.get(kind, f"{size}s")
        module = {"MARK": reuse, "SIDECAR": sidecar}.get(name, wal)
        assert layout == getattr(module, name).format
        assert struct.calcsize(layout) == end
