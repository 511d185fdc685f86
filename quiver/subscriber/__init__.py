"""Who gets which bundle: progress, claims and outcomes of every subscriber, in memory only.

============  =====================================================================
``runs``      a set of numbers as runs
``progress``  what is resolved and what is open; floor, high-water mark, gaps
``offers``    what may be handed out now
``registry``  all subscribers of one core
``snapshot``  what of them outlives a restart
``handle``    one delivered bundle in the consumer's hands
============  =====================================================================
"""

from quiver.subscriber.handle import BundleHandle, Delivery
from quiver.subscriber.progress import Progress
from quiver.subscriber.registry import SUBSCRIBERS_MAX, Claim, Registry, check_name
from quiver.subscriber.runs import RunSet
from quiver.subscriber.snapshot import NackSnapshot, SegmentSnapshot, SubscriberSnapshot

__all__ = [
    "SUBSCRIBERS_MAX",
    "BundleHandle",
    "Claim",
    "Delivery",
    "NackSnapshot",
    "Progress",
    "Registry",
    "RunSet",
    "SegmentSnapshot",
    "SubscriberSnapshot",
    "check_name",
]
