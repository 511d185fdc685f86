"""The bytes of a data batch, one object for each flush. ``FORMAT.md`` has the tables.

============  ==================================================================
``format``    block and footer, pure
``codec``     whole batches, with zstd, and the limits of what is decompressed
``names``     what objects are called, and when they were minted
============  ==================================================================
"""

from quiver.ship.batch.codec import (
    BLOCK_BYTES_MAX,
    COMPRESSIONS,
    RECORDS_MAX,
    Compression,
    EncodedBatch,
    decode_batch,
    encode_batch,
    encode_parts,
    sum_parts,
)
from quiver.ship.batch.format import RECORD_BYTES_MAX
from quiver.ship.batch.names import (
    BATCH,
    Entropy,
    mint_name,
    mint_ulid,
    name_time_ms,
    ulid_time_ms,
)

__all__ = [
    "BATCH",
    "BLOCK_BYTES_MAX",
    "COMPRESSIONS",
    "RECORDS_MAX",
    "RECORD_BYTES_MAX",
    "Compression",
    "EncodedBatch",
    "Entropy",
    "decode_batch",
    "encode_batch",
    "encode_parts",
    "mint_name",
    "mint_ulid",
    "name_time_ms",
    "sum_parts",
    "ulid_time_ms",
]
