"""Rows of a store become commands, and these a collection: each row once, whatever fails.

==============  ==============================================================
``feeder``      ``Feeder``: takes, appends, acks, in this order and no other
``options``     which columns mean what, and how large an epoch is
``intake``      bundles in the order of their core, cut into epochs
``offsets``     how far each core is in, as the manifest keeps it
``conditions``  which rows delete their key, said in a line of text
``shaping``     rows as commands, under a definition that may grow wider
``telling``     what a feeder tells
==============  ==============================================================
"""

from quiver.upsert.feeding.feeder import Feeder
from quiver.upsert.feeding.intake import Subscriber
from quiver.upsert.feeding.options import FeedOptions, Misfit
from quiver.upsert.feeding.telling import Appended, FeedTally, PassedBy, Told, Trouble

__all__ = [
    "Appended",
    "FeedOptions",
    "FeedTally",
    "Feeder",
    "Misfit",
    "PassedBy",
    "Subscriber",
    "Told",
    "Trouble",
]
