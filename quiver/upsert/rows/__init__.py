"""Commands and differences as Arrow tables.

==============  ========================================================
``definition``  which columns are the key, which the value; how many buckets
==============  ========================================================
"""

from quiver.upsert.rows.definition import (
    BASE_COLUMNS,
    DIFF,
    ERROR,
    HASH,
    KEY,
    TIME,
    VALUE,
    Definition,
)

__all__ = ["BASE_COLUMNS", "DIFF", "ERROR", "HASH", "KEY", "TIME", "VALUE", "Definition"]
