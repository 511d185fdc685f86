"""Commands that wait for their time: of each key and time one, the one that wins.

=============  =======================================================
``stash``      what waits, time by time
``bin``        what waits for one time, spread over shelves by hash
``shelf``      a share of it: what is reduced, and what came since
=============  =======================================================
"""

from quiver.upsert.stash.stash import Stash

__all__ = ["Stash"]
