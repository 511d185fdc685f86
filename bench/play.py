"""What all processes of one play have to know of it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import Self

__all__ = ["Play"]


@dataclass(frozen=True)
class Play:
    """One play. It goes to each process as JSON."""

    folder: str

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read it as ``to_json`` gave it."""
        return cls(**json.loads(text))

    def to_json(self) -> str:
        """Write it, credentials of servers and all."""
        return json.dumps(asdict(self))

    def log(self, name: str) -> str:
        """What an actor said."""
        return os.path.join(self.folder, f"{name}.log")
