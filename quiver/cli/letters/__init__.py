"""The verbs of ``quiver dead-letters``, one in each file.

============  ====================================================================
``desk``      which letters are meant, and how they are reported
``ls``        and ``show`` read beside whoever writes; the others open the store
============  ====================================================================
"""

__all__: list[str] = []
