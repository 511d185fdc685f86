"""Tables of one schema, one behind the other."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

__all__ = ["join_tables"]


def join_tables(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """Join tables of this schema, of which there is one at least; nothing is copied.

    To Arrow tables without columns have no rows once they are joined; their batches keep them.
    """
    if len(tables) == 1:
        return tables[0]
    if len(schema):
        return pa.concat_tables(tables)
    return pa.Table.from_batches([batch for each in tables for batch in each.to_batches()], schema)
