"""The bytes of streams: what they are made of, and which of their checksums are there already.

The checksum of a piece is the same wherever the piece lies; that of a page is not. So the messages
of a large stream begin where a page does, however long what is in front of them will be.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from quiver.ipc_build import Messages
from quiver.segment.format import ALIGNMENT
from quiver.segment.pages import PAGE_BYTES, PageSums
from quiver.segment.sums import Bytes, Piece, Sums, sum_up

__all__ = ["LARGE_BYTES", "Bodies", "Body", "GrowingBody", "KeptBodies", "PagesAhead"]

LARGE_BYTES: Final = 1 << 20
"""Messages of so many bytes begin where a page does; up to two pages of zeros are little then."""


class PagesAhead(NamedTuple):
    """Checksums of the pages of pieces ``[first, stop)``, of which the first begins a page."""

    first: int
    stop: int
    pages: PageSums


class Body(NamedTuple):
    """A whole stream, which starts at a multiple of ``align`` bytes."""

    pieces: Sequence[Piece]
    align: int = ALIGNMENT
    ahead: PagesAhead | None = None

    @property
    def stream_count(self) -> int:
        """How many streams it is."""
        return 1


class KeptBodies(NamedTuple):
    """Whole streams one after the other: ``head``, a payload as it came, and its tail, of each.

    Very many, so that they are columns and no objects. Pages have checksums in those alone whose
    payload has ``paged_bytes`` or more. ``sums`` are those of the first ones, as far as somebody
    computed them before.
    """

    head: bytes
    payloads: Sequence[memoryview]
    tails: Sequence[bytes]
    paged_bytes: int
    sums: Sequence[Sums]

    @property
    def stream_count(self) -> int:
        """How many streams they are."""
        return len(self.payloads)


Bodies: TypeAlias = Body | KeptBodies


class GrowingBody:
    """The messages of a stream in the making. Not safe for several threads at once."""

    def __init__(self) -> None:
        self.messages: list[Messages] = []
        self._sums: list[Sums] = []
        """Of the first pieces of all messages."""
        self._pages = PageSums(0)
        """Of the same ones."""

    def add(self, messages: Sequence[Messages]) -> None:
        """Take more messages, behind those that are there."""
        self.messages += messages

    def replace(self, messages: Sequence[Messages]) -> None:
        """Take other messages in the place of all that are there."""
        self.messages = list(messages)
        self._sums.clear()
        self._pages = PageSums(0)

    def _pieces(self) -> Iterator[Bytes]:
        return (piece for messages in self.messages for piece in messages.pieces)

    def sum_up(self) -> None:
        """Compute the checksums of what came so far, so that nobody must who writes it."""
        for piece in itertools.islice(self._pieces(), len(self._sums), None):
            self._sums.append(sum_up(piece))
            self._pages.add(memoryview(piece))

    def finish(self, build: Callable[[int], Sequence[Bytes]]) -> Body:
        """Put the stream together: ``build`` gives its bytes, the messages at such a multiple."""
        byte_count = sum(int(messages.lengths.sum()) for messages in self.messages)
        is_large = byte_count >= LARGE_BYTES
        align = PAGE_BYTES if is_large else ALIGNMENT
        bytes_of = build(align)
        front = len(bytes_of) - 1 - sum(len(messages.pieces) for messages in self.messages)
        sums = [*itertools.repeat(None, front), *self._sums]
        pieces = list(itertools.starmap(Piece, itertools.zip_longest(bytes_of, sums)))
        if not is_large or not self._sums:
            return Body(pieces, align)
        return Body(pieces, align, PagesAhead(front, len(sums), self._pages.copy()))
