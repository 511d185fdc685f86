"""Reads batches in the order of the queue, acks them, and fences whoever did so before.

================  ==============================================================
``consumer``      ``Consumer``: the one who owns the reading end
``ahead``         what comes next, without what came before
``cursors``       what was handed out and what of it is acked; pure
``window``        what was delivered lately, so that a repeat is known; pure
``identity``      which segment a call carries, if it is one of a store; pure
``values``        descriptors and batches, as callers get them
``fetcher``       reads and checks a batch, in any process
``dead_letters``  what could not be delivered, as objects beside the queue
================  ==============================================================
"""

from quiver.ship.consumer.consumer import Consumer
from quiver.ship.consumer.dead_letters import DeadLetter, DeadLetters
from quiver.ship.consumer.fetcher import Fetcher
from quiver.ship.consumer.values import Batch, CallRange, Descriptor
from quiver.ship.consumer.window import Delivered

__all__ = [
    "Batch",
    "CallRange",
    "Consumer",
    "DeadLetter",
    "DeadLetters",
    "Delivered",
    "Descriptor",
    "Fetcher",
]
