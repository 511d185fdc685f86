"""The verbs of ``quiver subscriber``, one in each file.

============  ====================================================================
``desk``      how they open a store, and what they report
``ls``        read beside whoever writes; all others open the store
============  ====================================================================
"""

__all__: list[str] = []
