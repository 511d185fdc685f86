"""What all parts of the play have to know, and where their files are."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from typing import Final

from bench.play import Play
from quiver.ship.objects import open_bucket
from quiver.ship.queue import Queue, QueueOptions

__all__ = ["CORES", "Setup", "content"]

CORES: Final = 2
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz "
_LENGTH_MAX: Final = 300


@dataclass(frozen=True)
class Setup(Play):
    """One play."""

    url: str
    options: dict[str, str] = field(default_factory=dict, repr=False)
    grace: float = 8.0
    """Seconds after which what nobody names is swept."""
    late: float = 1.0
    """Seconds after which an upload is not appended any more."""
    patience: float = 2.0
    """Seconds for which a change of the queue is tried: the rest of the grace is for one try."""
    page_entries: int = 64

    @property
    def store(self) -> str:
        """The store that writers append to."""
        return os.path.join(self.folder, "store")

    @property
    def sink(self) -> str:
        """The database of the consumer."""
        return os.path.join(self.folder, "sink.db")

    def queue(self, who: str) -> Queue:
        """Open the queue; ``who`` can be told from others by each request."""
        options = self.options | ({"user_agent": who} if self.options else {})
        bucket = open_bucket(self.url, options=options)
        limits = QueueOptions(retry_seconds=self.patience, page_entries=self.page_entries)
        return Queue(bucket, options=limits)


def content(life: int, number: int) -> bytes:
    """Give the record of a producer that has a number; what is in it follows from that."""
    rng = random.Random(life * 1_000_003 + number)
    return "".join(rng.choices(_LETTERS, k=rng.randrange(_LENGTH_MAX))).encode()
