"""Who loses all the time asks for a turn, and who wins waits for him once.

Nobody who wins can see that others lose: they leave nothing in the manifest. So a loser puts an
object beside it, ``turn``, and winners look there now and then. It is a courtesy and no lock:
whatever it says, and whatever becomes of it, changes stay right.

::

    turn    asker[8] | milliseconds u32
"""

from __future__ import annotations

import struct
from typing import Final

from quiver.errors import MissingError, StorageError
from quiver.ship.batch.names import Entropy
from quiver.ship.objects import Bucket, Tag

__all__ = ["TURN_KEY", "Turns"]

TURN_KEY: Final = "turn"

_TURN: Final = struct.Struct("<8sI")
_SECONDS_MAX: Final = 2.0
_MS: Final = 1000


class Turns:
    """The wishes at one queue, as one of its users makes and sees them."""

    def __init__(self, bucket: Bucket, entropy: Entropy) -> None:
        self._bucket = bucket
        self._me = entropy(8)
        self._seen: Tag | None = None
        self.failures = 0
        """How often the wish could be neither put nor read."""

    def ask(self, seconds: float) -> None:
        """Ask all others to wait for so long."""
        wish = _TURN.pack(self._me, int(min(seconds, _SECONDS_MAX) * _MS) + 1)
        try:
            self._seen = self._bucket.put(TURN_KEY, wish)
        except StorageError:
            self.failures += 1

    def asked(self) -> float:
        """Say for how many seconds somebody else asks to wait; each wish is told once."""
        try:
            if self._seen is None:
                found = self._bucket.get(TURN_KEY)
            else:
                changed = self._bucket.get_if_changed(TURN_KEY, self._seen)
                if changed is None:
                    return 0.0
                found = changed
        except MissingError:
            return 0.0
        except StorageError:
            self.failures += 1
            return 0.0
        self._seen = found.tag
        data = bytes(memoryview(found.data)[: _TURN.size + 1])
        if len(data) != _TURN.size:
            return 0.0
        asker, milliseconds = _TURN.unpack(data)
        return 0.0 if asker == self._me else min(milliseconds / _MS, _SECONDS_MAX)
