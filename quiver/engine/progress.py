"""How far the sources that a core follows were read: what it knows, and as of which bundle.

Three tables, in the order of the flow, each newer than the one before it::

    covered   what segments hold or held, and so the file ``progress``
    sealed    of the bundles that become a segment next (``Sealed.progress``)
    opened    of those that came since

A state never gets ahead of its bundle: it moves on when that does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from quiver.errors import ClosedError, DamageError, InputError
from quiver.payload import EncodedBundle
from quiver.progress import Loss, Table, decode_note
from quiver.progress.format import TABLE_BYTES_MAX

__all__ = ["CoreProgress", "Followed", "Progress", "progress_of"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a source was read, to be appended with the bundle that was read up to there.

    Made by ``Follower.at`` of a store.
    """

    source: str
    epoch: int
    states: Mapping[str, str | None]
    note: bytes = field(repr=False, compare=False)
    follower: Followed = field(repr=False, compare=False)
    """Who read it. An epoch does not tell: it stays the same until a bundle has it."""


class Followed(Protocol):
    """Who follows a source, as its core knows it."""

    def let_go(self) -> None:
        """Let others follow it; a second call does nothing."""


@dataclass(slots=True)
class CoreProgress:
    """The progress of one core, and who follows what by way of it."""

    covered: Table = field(default_factory=Table)
    opened: Table = field(default_factory=Table)
    saved_seq: int = -1
    """Up to which wal_seq the file knows what segments say."""
    is_unsaved: bool = False
    """Whether the file lacks something of what is covered."""
    loss: Loss | None = None
    """That states were lost here which nothing else tells of."""
    is_loss_unsaved: bool = False
    followers: dict[str, Followed] = field(default_factory=dict)
    _room: int = 0
    """At least so many bytes of states may come before all have to be counted again."""

    def take(self, wal_seq: int, note: bytes) -> None:
        """Take in what a bundle says that joins the open segment; raises DamagedEntry."""
        self.opened.take(wal_seq, decode_note(note))

    def take_covered(self, wal_seq: int, note: bytes) -> None:
        """Do the same with a bundle that is or was in a segment."""
        self.covered.take(wal_seq, decode_note(note))

    def seal(self) -> Table:
        """Give what the open bundles say, and begin anew."""
        opened, self.opened = self.opened, Table()
        return opened

    def cover(self, table: Table) -> None:
        """Take in what bundles say that are in a segment now, or were dropped.

        Who crashes before that is saved reads again what was dropped: it is nowhere else.
        """
        if table:
            self.covered.take_all(table.notes())
            self.is_unsaved = True

    def latest(self, sealed: Table | None) -> Table:
        """Give all that is known, of open bundles as well."""
        found = Table(self.covered.notes())
        for table in (sealed, self.opened):
            if table is not None:
                found.take_all(table.notes())
        return found

    def check_follower(self, progress: Progress) -> None:
        """Raise ClosedError unless it is who made this progress that has the source.

        Right before a bundle is written: while it was waited for room another may have come.
        """
        if self.followers.get(progress.source) is not progress.follower:
            raise ClosedError(
                f"source {progress.source!r} is not followed any more by who made this progress",
                hint="store.follow(source) goes on where the last durable bundle ended",
            )

    def check_room(self, note: bytes, sealed: Table | None) -> None:
        """Raise InputError if the states of all sources would become more than a file may hold.

        All is counted only when what came since could have made it so.
        """
        told = Table([(0, decode_note(note))])
        self._room -= told.byte_count()
        if self._room >= 0:
            return
        latest = self.latest(sealed)
        self._room = TABLE_BYTES_MAX - latest.byte_count()
        latest.take_all(told.notes())
        if (size := latest.byte_count()) > TABLE_BYTES_MAX:
            raise InputError(
                f"the states of all sources take {size:,} bytes, the limit is {TABLE_BYTES_MAX:,}",
                hint="give None as the state of a split that is read to its end",
            )

    def let_go(self) -> None:
        """Let others follow what is followed by way of this core."""
        for follower in list(self.followers.values()):
            follower.let_go()


def progress_of(bundles: Iterable[EncodedBundle]) -> Table:
    """Add up what bundles say; a note that cannot be read was told when it was met first."""
    found = Table()
    for bundle in bundles:
        if bundle.note is not None:
            try:
                found.take(bundle.wal_seq, decode_note(bundle.note))
            except DamageError:
                continue
    return found
