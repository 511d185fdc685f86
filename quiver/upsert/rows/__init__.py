"""Commands and differences as Arrow tables.

==============  ===================================================================
``definition``  which columns are the key, which the value; how many buckets
``plan``        which columns of a table say what
``columns``     what is done with Arrow columns
``keys``        the canonical bytes of rows
``hashing``     one number for each key, for all time
``sameness``    whether rows are the same
``grouping``    which rows share a key
``commands``    keys and what becomes of them
``fitting``     columns under the types of a collection
``prepare``     from the rows of a table to commands
``reducing``    one command for each key
``looked``      what a collection held, and what an operator asks of it
``diffs``       the rows that go and come
==============  ===================================================================
"""

from quiver.upsert.rows.commands import ORDER, Commands, wire_schema
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
from quiver.upsert.rows.diffs import differences
from quiver.upsert.rows.grouping import Groups, group
from quiver.upsert.rows.hashing import buckets_of, key_hashes, rows_of_buckets
from quiver.upsert.rows.keys import exact_bytes, key_bytes
from quiver.upsert.rows.looked import Looked, Persisted
from quiver.upsert.rows.plan import Plan, define, plain_schema
from quiver.upsert.rows.prepare import Misfit, prepare
from quiver.upsert.rows.reducing import reduce, settled
from quiver.upsert.rows.sameness import same_keys, same_values

__all__ = [
    "BASE_COLUMNS",
    "DIFF",
    "ERROR",
    "HASH",
    "KEY",
    "ORDER",
    "TIME",
    "VALUE",
    "Commands",
    "Definition",
    "Groups",
    "Looked",
    "Misfit",
    "Persisted",
    "Plan",
    "buckets_of",
    "define",
    "differences",
    "exact_bytes",
    "group",
    "key_bytes",
    "key_hashes",
    "plain_schema",
    "prepare",
    "reduce",
    "rows_of_buckets",
    "same_keys",
    "same_values",
    "settled",
    "wire_schema",
]
