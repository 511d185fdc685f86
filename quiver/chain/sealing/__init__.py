"""How a block ends: who may write to it, and where it stops when its chain breaks."""

from __future__ import annotations

from quiver.chain.sealing.admission import Copy, Frame, admit, promise
from quiver.chain.sealing.decide import Answer, Decision, Sealed, Wait, decide

__all__ = [
    "Answer",
    "Copy",
    "Decision",
    "Frame",
    "Sealed",
    "Wait",
    "admit",
    "decide",
    "promise",
]
