"""Subscribers of a chain: any bytes are records, damage or a newer version; nothing else.

::

    record | LF | record | LF | ...
"""

from __future__ import annotations

from contextlib import suppress

from quiver.chain.subscribing.format import decode_record, encode_record
from quiver.chain.subscribing.marks import Marks
from quiver.errors import DamageError, QuiverError, VersionError


def one_input(data: bytes) -> None:
    marks = Marks(wants_all=False)
    for line in data.split(b"\n"):
        try:
            record = decode_record(line.decode("utf-8", "surrogateescape"))
        except (DamageError, VersionError):
            continue
        assert decode_record(encode_record(record)) == record
        with suppress(DamageError):
            marks.apply(record)
        check_snapshot(marks)


def check_snapshot(marks: Marks) -> None:
    """What is read back from a snapshot is the same marks."""
    snapshot = marks.snapshot()
    again = Marks(wants_all=False)
    with suppress(QuiverError):
        again.apply(decode_record(encode_record(snapshot)))
    assert again.snapshot() == snapshot
