"""A collection as rows and columns, for who reads it.

===========  ===================================================================
``view``     ``View``: its state at an epoch, and what changed
``columns``  which columns that has
===========  ===================================================================
"""

from quiver.upsert.viewing.columns import ADDED, Columns, Errors, Layout
from quiver.upsert.viewing.view import View, open_view

__all__ = ["ADDED", "Columns", "Errors", "Layout", "View", "open_view"]
