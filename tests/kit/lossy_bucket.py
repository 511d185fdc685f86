"""A bucket in memory that fails as it is told, by the number of the act that changes it."""

from __future__ import annotations

import itertools
from typing import Any

from quiver.errors import RemoteError
from quiver.ship.objects import MemoryBucket, UnclearError

CHANGES = ("put", "put_if", "write")


class Faulty:
    """``done``: only the answer is lost; ``missed``: nothing is done either; ``refused``."""

    def __init__(self, faults: dict[int, str], bucket: Any = None) -> None:
        self._bucket = bucket or MemoryBucket("collection")
        self._faults, self._acts = faults, itertools.count()

    @classmethod
    def over(cls, bucket: Any, faults: dict[int, str]) -> Faulty:
        return cls(faults, bucket)

    def heal(self) -> None:
        self._faults = {}

    place = property(lambda self: self._bucket.place)
    base = property(lambda self: self._bucket.base)

    def __getattr__(self, name: str) -> Any:
        act = getattr(self._bucket, name)
        if name not in CHANGES:
            return act

        def faulty(*args: Any, **named: Any) -> Any:
            fault = self._faults.get(next(self._acts), "")
            found = act(*args, **named) if fault in ("", "done") else None
            if fault == "refused":
                raise RemoteError("no", path="x")
            if fault:
                raise UnclearError("no answer", path="x", retryable=True)
            return found

        return faulty
