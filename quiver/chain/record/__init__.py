"""What is agreed on about a partition: its open block, its sealed ones, who may end the one.

=============  ====================================================================
``values``     the record and its blocks, and what of them may not be
``format``     their bytes
``changes``    what may become of a record; pure
``partition``  the record where it is kept: changed by one at a time, searched by time
=============  ====================================================================
"""

from quiver.chain.record.changes import (
    KEPT_BLOCKS,
    Claim,
    Following,
    abandoned,
    claimed,
    committed,
    finished,
    finished_anew,
    paged,
    purged,
    released,
    with_block,
)
from quiver.chain.record.format import (
    decode_amended,
    decode_page,
    decode_record,
    encode_amended,
    encode_page,
    encode_record,
)
from quiver.chain.record.partition import Partition, is_partition_name
from quiver.chain.record.values import (
    PAGE_BLOCKS,
    TIME_MIN,
    Amended,
    Block,
    Open,
    PageRef,
    Record,
)

__all__ = [
    "KEPT_BLOCKS",
    "PAGE_BLOCKS",
    "TIME_MIN",
    "Amended",
    "Block",
    "Claim",
    "Following",
    "Open",
    "PageRef",
    "Partition",
    "Record",
    "abandoned",
    "claimed",
    "committed",
    "decode_amended",
    "decode_page",
    "decode_record",
    "encode_amended",
    "encode_page",
    "encode_record",
    "finished",
    "finished_anew",
    "is_partition_name",
    "paged",
    "purged",
    "released",
    "with_block",
]
