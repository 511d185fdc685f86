"""Arrow data under another schema than its own: every value kept exactly, or refused.

===========  ===================================================================
``conform``  a batch under a wider schema, the common one of several
``joining``  tables of one schema, one behind the other
``nested``   nested columns taken apart and put together again
``nulls``    columns of nulls, of any type
``picking``  some rows of many, where Arrow would give those of others
===========  ===================================================================
"""

from quiver.casts.conform import CAST_FAULTS, conform, conform_table
from quiver.casts.joining import join_tables

__all__ = ["CAST_FAULTS", "conform", "conform_table", "join_tables"]
