"""A store watched from outside: numbers of each station, for machines and for people.

==============  ==================================================================
``snapshot``    all cores of a folder as numbers, without a lock
``open_log``    of these, how much of the log is in no segment yet
==============  ==================================================================
"""

from quiver.observe.snapshot import Observer, StoreStats

__all__ = ["Observer", "StoreStats"]
