"""A store seen live, for ``top``: looks, what lies between them, and a screen.

===========  ===================================================================
``look``     what one look sees, as values
``looking``  looks at a folder again and again, without its lock
``rates``    how fast it goes, from two looks
``events``   what happened, from two looks
``board``    all of that together: what is to be seen
``words``    the same as text
``watcher``  the thread that looks, so that a slow disk holds up no key
``screen``   the screen; the only one that needs textual
===========  ===================================================================
"""

__all__ = ()
