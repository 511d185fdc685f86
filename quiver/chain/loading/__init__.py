"""The loader: one writer of one partition, through whatever happens to its chain.

==============  ====================================================================
``loader``      bundles get numbers and times, and become entries; receipts
``outbox``      entries that not all locations have yet
``driver``      what happened is taken in, the roll's acts are done, entries are sent
``rules``       sizes, and who gives times
``happenings``  what tasks tell it
``mailbox``     what they told, in order, until it is over
``tasks``       what may wait for a machine: record, nodes, room, fences
==============  ====================================================================
"""

from quiver.chain.loading.loader import Loader, LoadReceipt
from quiver.chain.loading.rules import LoaderRules
from quiver.chain.loading.tasks import Surroundings

__all__ = ["LoadReceipt", "Loader", "LoaderRules", "Surroundings"]
