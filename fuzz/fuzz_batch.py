"""Batches: any bytes are records or an error of ours, and records come back as they were.

::

    batch
"""

from __future__ import annotations

from quiver.errors import CapacityError, DamageError, VersionError
from quiver.ship.batch import decode_batch, encode_batch, name_time_ms
from quiver.ship.batch.format import FOOTER, STORED, decode_footer

BLOCK_BYTES_MAX = 1 << 20


def one_input(data: bytes) -> None:
    check_name(data)
    try:
        records = decode_batch(data, block_bytes_max=BLOCK_BYTES_MAX)
    except (DamageError, VersionError, CapacityError):
        return
    footer = decode_footer(data)
    assert len(records) == footer.record_count
    if footer.compression == STORED:
        assert b"".join(encode_batch(records).parts) == data
    size = sum(4 + len(record) for record in records)
    assert size <= BLOCK_BYTES_MAX or size == len(data) - FOOTER.size


def check_name(data: bytes) -> None:
    time_ms = name_time_ms(data[:32].decode("latin-1"))
    assert time_ms is None or 0 <= time_ms < 1 << 48
