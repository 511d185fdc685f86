"""Write the golden files of a source of format 1, once; refuses to touch what is there."""

from __future__ import annotations

import sys
from pathlib import Path

from quiver.source.files.reader import FilesState
from quiver.source.format import (
    Epochs,
    EpochStates,
    FileEntry,
    Head,
    SplitState,
    encode_epochs,
    encode_group,
    encode_head,
)

FOLDER = Path(__file__).parent / "v1" / "source"

HEAD = Head("0123456789abcdef", 2)
FIRST = [FileEntry("a/one.parquet", 4711, 1_790_000_000_000_000_000), FileEntry("b.csv", 1, 0)]
SECOND = [FileEntry("größer.ndjson", (1 << 63) - 1, 7)]
STATE = FilesState(HEAD.register_id, 2, 65_536, 4, 1004).encode()
EPOCHS = Epochs(
    "files",
    7,
    (
        EpochStates(7, {"files_0": SplitState(STATE, 7, held=True), "files_1": SplitState(None)}),
        EpochStates(9, {"files_0": SplitState(STATE, 7), "files_1": SplitState(STATE, 9, True)}),
        EpochStates(10, {}),
    ),
)


def register() -> bytes:
    return encode_head(HEAD) + encode_group(0, FIRST) + encode_group(2, SECOND)


if __name__ == "__main__":
    if FOLDER.exists():
        sys.exit(f"{FOLDER} is there already: golden files are never written again")
    FOLDER.mkdir(parents=True)
    (FOLDER / "register").write_bytes(register())
    (FOLDER / "epochs").write_bytes(encode_epochs(EPOCHS))
