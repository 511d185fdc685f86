"""Connector ``quiver``: the rows of one slot of a local store, all cores, finalized segments only.

==============  ===================================================================
``connector``   ``StoreConnector``: its options, its splits, what it acknowledges
``position``    where a reader stands in a core, as the state of a split
``reader``      reads one core, and waits for what comes
``planner``     what lies between two positions, for who reads in batches
``admission``   how much of it comes next
``listing``     which segments there are, looked up often
``bundles``     the bundles of one slot in a segment
==============  ===================================================================
"""

from __future__ import annotations

from quiver.source.stores.admission import Limits
from quiver.source.stores.bundles import Span, read_bundles, read_span, read_timed
from quiver.source.stores.connector import StoreConnector
from quiver.source.stores.planner import Backlog, Planner, Positions
from quiver.source.stores.position import Position

__all__ = [
    "Backlog",
    "Limits",
    "Planner",
    "Position",
    "Positions",
    "Span",
    "StoreConnector",
    "read_bundles",
    "read_span",
    "read_timed",
]
