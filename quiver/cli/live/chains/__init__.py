"""A chain seen live, for ``quiver chain top``.

===========  ===================================================================
``look``     what one look sees, as values
``looking``  asks metadata and nodes again and again
``board``    the last look, rates since the one before, what happened
``words``    the same as text
``screen``   the screen; the only one that needs textual
===========  ===================================================================
"""

__all__ = ()
