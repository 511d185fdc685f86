"""What all parts of the play have to know, and where their files are."""

from __future__ import annotations

import json
import os
import random
from dataclasses import asdict, dataclass, field
from typing import Final, Self

from quiver.ship.objects import open_bucket
from quiver.ship.queue import Queue, QueueOptions

__all__ = ["CORES", "Setup", "content"]

CORES: Final = 2
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz "
_LENGTH_MAX: Final = 300


@dataclass(frozen=True)
class Setup:
    """One play. It goes to each process as JSON."""

    folder: str
    url: str
    options: dict[str, str] = field(default_factory=dict, repr=False)
    grace: float = 8.0
    """Seconds after which what nobody names is swept."""
    late: float = 1.0
    """Seconds after which an upload is not appended any more."""
    patience: float = 2.0
    """Seconds for which a change of the queue is tried: the rest of the grace is for one try."""
    page_entries: int = 64

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read it as ``to_json`` gave it."""
        return cls(**json.loads(text))

    def to_json(self) -> str:
        """Write it, credentials of the server and all."""
        return json.dumps(asdict(self))

    @property
    def store(self) -> str:
        """The store that writers append to."""
        return os.path.join(self.folder, "store")

    @property
    def sink(self) -> str:
        """The database of the consumer."""
        return os.path.join(self.folder, "sink.db")

    def log(self, name: str) -> str:
        """What an actor said."""
        return os.path.join(self.folder, f"{name}.log")

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
