"""Who gets which bundle: progress, claims and outcomes of every subscriber, in memory only.

=============== ============================================================
``runs``        a set of any numbers as runs
``bundle_set``  one of bundle indices, as bits
``progress``    what is resolved and what is open; floor, high-water mark, gaps
``order``       which of that comes first
``offers``      what may be handed out now
``member``      all of that for one subscriber, with its claims
``registry``    all subscribers of one core
``snapshot``    what of them outlives a restart
``handle``      one delivered bundle in the consumer's hands
=============== ============================================================
"""

from quiver.subscriber.handle import BundleHandle, BundleRun, Delivery, Handle
from quiver.subscriber.member import Claim, Member
from quiver.subscriber.order import Order, Ranked, newest, oldest
from quiver.subscriber.progress import Progress
from quiver.subscriber.registry import SUBSCRIBERS_MAX, Registry, check_name
from quiver.subscriber.runs import RunSet
from quiver.subscriber.snapshot import NackSnapshot, SegmentSnapshot, SubscriberSnapshot

__all__ = [
    "SUBSCRIBERS_MAX",
    "BundleHandle",
    "BundleRun",
    "Claim",
    "Delivery",
    "Handle",
    "Member",
    "NackSnapshot",
    "Order",
    "Progress",
    "Ranked",
    "Registry",
    "RunSet",
    "SegmentSnapshot",
    "SubscriberSnapshot",
    "check_name",
    "newest",
    "oldest",
]
