"""A store, or a chain, seen live, for ``top``: looks, what lies between them, and a screen.

===========  ===================================================================
``look``     what one look sees, as values
``looking``  looks at a folder again and again, without its lock
``rates``    how fast it goes, from two looks
``events``   what happened, from two looks
``board``    all of that together: what is to be seen
``words``    the same as text
``watcher``  the thread that looks, so that a slow disk holds up no key
``frame``    what every screen has; it needs textual
``screen``   the screen of a store; it needs textual
``showing``  how verbs show one
``chains``   the same of a chain
===========  ===================================================================
"""

__all__ = ()
