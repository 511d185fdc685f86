"""What sinks, jobs and staged files are called.

A file is ``<sink>.<job>.<task>.<n>.qseg``: whose it is can be told from its name, for whoever
commits the next batch of that sink. A job without a sink, which nobody repeats, has ``_`` instead.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from quiver.errors import InputError

__all__ = ["Job", "check_sink"]

_SINK: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,99}", re.ASCII)
_WRITES: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,109}", re.ASCII)
"""What writes under a user's name are told apart by stands behind it, and counts apart."""
_NAME: Final = re.compile(r"[0-9A-Za-z_-]{1,64}", re.ASCII)
_NOBODY: Final = "_"


def check_sink(sink: str) -> str:
    """Give a name of a sink back; raises InputError if it cannot be one."""
    if not _SINK.fullmatch(sink):
        raise InputError(
            f"{sink!r} cannot name a sink",
            hint="up to 100 letters, digits, - and _, the first a letter or a digit",
        )
    return sink


@dataclass(frozen=True, slots=True)
class Job:
    """One attempt to write one batch, by any number of tasks.

    ``sink`` names who repeats a batch under the same ``batch_id`` until it is in; it is empty for a
    job that is done once. ``name`` tells this attempt from all others, whoever makes them.
    """

    name: str
    sink: str = ""
    batch_id: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be part of a file's name."""
        if self.sink and not _WRITES.fullmatch(self.sink):
            check_sink(self.sink)
        if not _NAME.fullmatch(self.name):
            raise InputError(f"{self.name!r} cannot name a job")

    @property
    def prefix(self) -> str:
        """How the names of this job's files begin."""
        return f"{self.sink or _NOBODY}.{self.name}."

    @property
    def stale_prefix(self) -> str:
        """How the names of all files begin that are of no use once this job is in.

        A sink writes one batch at a time, so what else there is of it was left behind.
        """
        return f"{self.sink}." if self.sink else self.prefix
