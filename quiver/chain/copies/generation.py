"""How new a node's folder is: a number that others remember, and that is here before they do."""

from __future__ import annotations

from typing import Final

from quiver.chain.copies.format import decode_generation, encode_generation
from quiver.chain.copies.opening import read_small
from quiver.disk import Disk, replace
from quiver.errors import DamageError, MissingError

__all__ = ["Generation"]

_FILE: Final = "generation"


class Generation:
    """The number of one folder, which belongs to whoever has the folder's lock."""

    def __init__(self, disk: Disk) -> None:
        """Read it; raises StorageError, VersionError."""
        self._disk = disk
        self.number: int | None = None
        """None: none was kept yet, or its file is damaged, and nothing can be said."""
        self.fault: DamageError | None = None
        try:
            self.number = decode_generation(read_small(disk, _FILE))
        except MissingError:
            pass
        except DamageError as error:
            self.fault = error.at(disk.locate(_FILE))

    def is_behind(self, remembered: int) -> bool:
        """Whether others remember a later one: the folder is as it was some time ago."""
        return self.number is not None and self.number < remembered

    def rise(self, remembered: int) -> int:
        """Keep a greater one durably, and give it: now it may be told to others."""
        number = max(self.number or 0, remembered) + 1
        replace(self._disk, _FILE, encode_generation(number))
        self.number = number
        return number
