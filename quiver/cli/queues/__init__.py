"""The verbs of ``quiver queue``, one in each file.

===========  ===============================================================
``desk``     how they open a bucket
``looking``  what they say of a manifest and its entries
===========  ===============================================================
"""

__all__: list[str] = []
