"""What a collection held of the keys that were asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["Looked", "Persisted"]


@dataclass(frozen=True, eq=False, slots=True)
class Looked:
    """The rows that were found, under the schema ``state``, and for each key asked for which.

    ``index`` is -1 for a key that the collection does not have.
    """

    rows: pa.Table
    index: npt.NDArray[np.int64]


class Persisted(Protocol):
    """What an operator knows of the collection into which it puts differences."""

    @property
    def upper(self) -> int:
        """The persist frontier: the epoch to be appended next."""
        ...

    def lookup(self, hashes: npt.NDArray[np.uint64], keys: pa.StructArray) -> Looked:
        """Give the rows of these keys as of epoch ``upper`` - 1."""
        ...
