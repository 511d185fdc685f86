"""Wrong lines in nodes and loaders of a chain; ``bench.chain_soak`` looks for them."""

from __future__ import annotations

from typing import Final

from planting import Defect

__all__ = ["DEFECTS", "LOADER"]

LOADER: Final = "quiver.chain.loading.outbox"
_SYNC: Final = """\
            extent = self._copy.sync()
            if not is_early:
"""

DEFECTS: Final = (
    Defect(
        "a node acks before the one behind has it",
        "quiver.chain.node.passage",
        _SYNC,
        """\
            extent = self._copy.sync()
            self._tell_acked(Ack(extent.length, extent.last_seq))
            if not is_early:
""",
    ),
    Defect(
        "a loader sends again what the sealed block has",
        LOADER,
        """\
        self.acked(last_seq)
        self._unsent.extendleft(reversed(self._sent))
""",
        """\
        self._unsent.extendleft(reversed(self._sent))
""",
    ),
)
