"""The states of all splits at each barrier, on disk: what an executor restarts from.

One file, replaced as a whole. Epochs from the last committed one on are all kept, for anyone of
them may be where to restart; older ones go once there are more than ``history``.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Final

from quiver.disk import Disk, replace
from quiver.errors import CapacityError, DamageError, InputError, VersionError
from quiver.source.format import Epochs, EpochStates, SplitState, decode_epochs, encode_epochs

__all__ = ["FILE_NAME", "HISTORY", "Snapshots"]

FILE_NAME: Final = "epochs"
HISTORY: Final = 16
"""How many epochs are kept, and how many may be under way before a commit is due."""


class Snapshots:
    """The file ``path`` of a disk; one executor at a time has it. Nothing is made before ``save``.

    Epoch 0 is before everything: it is not on disk, has no states, and counts as committed.
    """

    def __init__(
        self, disk: Disk, path: str = FILE_NAME, *, connector: str, history: int = HISTORY
    ) -> None:
        """Read what is there; raises DamageError, VersionError, or InputError if it is another's.

        Damage loses no rows: the states are known to whoever committed an epoch with them.
        """
        if history < 1:
            raise InputError("a history has at least one epoch", hint="history=16")
        self._disk = disk
        self._path = path
        self._history = history
        self._file = self._read() or Epochs(connector)
        if self._file.connector != connector:
            raise InputError(
                f"{disk.locate(path)} has the states of connector {self._file.connector!r}, "
                f"not of {connector!r}",
                hint="give each source a file of its own",
            )

    @property
    def epochs(self) -> list[int]:
        """The epochs that are there, in order; 0 is not named."""
        return [states.epoch for states in self._file.epochs]

    @property
    def committed(self) -> int:
        """The last epoch known to be committed; it goes to the disk with the next ``save``."""
        return self._file.committed

    def states_at(self, epoch: int) -> Mapping[str, SplitState]:
        """Give the states of an epoch; raises InputError if it is not there any more, or yet."""
        if epoch == 0:
            return {}
        for states in self._file.epochs:
            if states.epoch == epoch:
                return states.splits
        known = ", ".join(map(str, [0, *self.epochs]))
        raise InputError(
            f"epoch {epoch} is not in {self._disk.locate(self._path)}",
            hint=f"known are {known}; 0 is the start of every split",
        )

    def save(self, epoch: int, splits: Mapping[str, SplitState]) -> None:
        """Add an epoch, durably. Raises CapacityError if too many before it are not committed."""
        if epoch <= max([0, *self.epochs]):
            raise InputError(f"epoch {epoch} does not follow {self.epochs[-1:] or [0]}")
        found = [*self._file.epochs, EpochStates(epoch, dict(splits))]
        while len(found) > self._history and found[0].epoch < self.committed:
            del found[0]
        if len(found) > self._history + 1:
            raise CapacityError(
                f"{len(found) - 1} epochs are under way and none of them is committed",
                hint="tell the executor which epochs are safe: commit(epoch)",
            )
        self._write(Epochs(self._file.connector, self.committed, tuple(found)))

    def commit(self, epoch: int) -> Mapping[str, SplitState]:
        """Note that an epoch and all before it are safe elsewhere; gives its states."""
        states = self.states_at(epoch)
        if epoch > self.committed:
            self._file = Epochs(self._file.connector, epoch, self._file.epochs)
        return states

    def restart(self, epoch: int) -> Mapping[str, SplitState]:
        """Forget, durably, all epochs behind this one, and give its states."""
        states = self.states_at(epoch)
        kept = tuple(known for known in self._file.epochs if known.epoch <= epoch)
        if len(kept) < len(self._file.epochs) or self.committed != epoch:
            self._write(Epochs(self._file.connector, epoch, kept))
        return states

    def _write(self, file: Epochs) -> None:
        replace(self._disk, self._path, encode_epochs(file))
        self._file = file

    def _read(self) -> Epochs | None:
        if self._disk.stat(self._path) is None:
            return None
        place = self._disk.locate(self._path)
        with closing(self._disk.open(self._path)) as file:
            data = file.read(0, file.size())
        try:
            return decode_epochs(data)
        except DamageError as error:
            raise error.at(place) from error
        except VersionError as error:
            raise VersionError(f"{place}: {error.message}", hint=error.hint) from error
