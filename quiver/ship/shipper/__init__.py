"""Finalized segments of a store into the queue, and back into a store.

============  =============================================================================
``format``    the payload that says whose a segment is, as pure bytes; ``FORMAT.md`` has it
``cargo``     a segment made ready: its file as it is, or written anew with what is wanted
``loading``   some of them as one batch, put into the bucket
``shipper``   ``Shipper``: a subscriber that appends them, each once, and acks
``witness``   whether what the marks say was shipped is still there
``underway``  how far one run of it has come
``threads``   work for other threads, also while the process ends
``options``   what it may be told
``telling``   what it tells
``arriving``  entries of a queue with their batches, fetched ahead
``restore``   ``Restorer``: what was shipped becomes segments of a store again, each once
``restoring`` what that may be told, and tells
============  =============================================================================
"""

from quiver.ship.shipper.cargo import OnDamage
from quiver.ship.shipper.format import ShippedSegment, decode_payload, encode_payload, is_payload
from quiver.ship.shipper.options import ShipOptions
from quiver.ship.shipper.restore import Restorer
from quiver.ship.shipper.restoring import Arriving, Passed, Restored, RestoreOptions, RestoreTally
from quiver.ship.shipper.shipper import Shipper
from quiver.ship.shipper.telling import Ahead, LeftOut, Shipment, Tally, Trouble

__all__ = [
    "Ahead",
    "Arriving",
    "LeftOut",
    "OnDamage",
    "Passed",
    "RestoreOptions",
    "RestoreTally",
    "Restored",
    "Restorer",
    "ShipOptions",
    "Shipment",
    "ShippedSegment",
    "Shipper",
    "Tally",
    "Trouble",
    "decode_payload",
    "encode_payload",
    "is_payload",
]
