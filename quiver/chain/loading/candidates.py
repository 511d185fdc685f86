"""The nodes that the next block might go to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from quiver.chain.placing import Node, choose
from quiver.chain.placing.choose import FILL_MAX, Random
from quiver.errors import QuiverError, RemoteError

__all__ = ["Candidates"]

_TRIES: Final = 3


@dataclass(slots=True)
class Candidates:
    """Where the next block might go, and who did not make room."""

    nodes: Sequence[Node]
    rf: int
    epoch: int
    tries: int = _TRIES
    failed: dict[str, QuiverError] = field(default_factory=dict)

    def choose(self, random: Random, *, avoid: frozenset[tuple[str, str]]) -> tuple[str, ...]:
        """Choose of those who did not fail; nobody if it was tried often enough."""
        if not self.tries:
            return ()
        self.tries -= 1
        left = [node for node in self.nodes if node.name not in self.failed]
        return choose(left, self.rf, random, avoid=avoid).locations

    def failure(self, name: str, number: int) -> RemoteError:
        """Say why it came to nothing."""
        said = "; ".join(f"{name}: {error}" for name, error in self.failed.items())
        return RemoteError(
            f"no node makes room for block {number} of {name}: {said or _why(self.nodes)}",
            path=name,
            retryable=True,
        )


def _why(nodes: Sequence[Node]) -> str:
    """Say why none was chosen, though none failed."""
    if not nodes:
        return "none serves"
    return f"all {len(nodes)} that serve are more than {FILL_MAX:.0%} full"
