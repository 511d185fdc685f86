"""How sealed blocks become segments: all locations have the same one before their logs go.

The record names the digest. It is that of most of those who made one when it was noted first, and
who made other bytes fetches it. If nobody who answers has it for half a minute, one whose own log
was cut where the record says is taken instead: the entries are the same, only the file is not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from quiver.chain.peers import BlockName, Finished, Holding, Peers
from quiver.chain.placing import START_DELAY_NS
from quiver.chain.record import Block, Partition, finished, finished_anew
from quiver.chain.sealing import Sealed
from quiver.errors import DamagedEntry, DamageError, InputError, PoisonedError, QuiverError

__all__ = ["Done", "Finisher", "holders"]

_OF_THE_COPY = (InputError, DamageError, PoisonedError)
"""What a copy says that is not what was sealed; it is fetched anew then."""


class Done(NamedTuple):
    """One act of a pass, or why it could not be done now."""

    act: str
    number: int
    node: str
    error: QuiverError | None = None


class Finisher:
    """Finishes the blocks of one partition. Not safe for threads."""

    def __init__(self, partition: Partition, *, peers: Peers, tell: Callable[[Done], None]) -> None:
        """Take a partition; ``tell`` hears of each act."""
        self._partition = partition
        self._peers = peers
        self._tell = tell
        self._lost_since: dict[int, int] = {}
        """Blocks of which no location that answers has anything."""
        self._alien_since: dict[int, int] = {}
        """Blocks of which nobody who answers has the segment of the record."""

    def finish(
        self, block: Block, held: Mapping[str, Mapping[int, Holding]], *, now_ns: int
    ) -> None:
        """Have all locations make the segment, note what it is, and let the logs go."""
        name = BlockName(self._partition.name, block.number)
        there = [
            (node, held[node][block.number])
            for node in reversed(block.locations)
            if block.number in held.get(node, {})
        ] or self._unlisted(block, held, now_ns)
        if any(node in block.locations for node, _ in there):
            self._lost_since.pop(block.number, None)
        made: dict[str, Finished] = {}
        wrong: list[str] = []
        for node, holding in there:
            try:
                made[node] = holding.finished or self._made(name, block, node)
            except QuiverError as error:
                self._tell(Done("finish", block.number, node, error))
                wrong += [node] if isinstance(error, _OF_THE_COPY) else []
        if not made:
            return
        block = block if block.digest else self._noted(block, _most(made))
        sources = holders(block, held) | {
            node: each for node, each in made.items() if each.digest == block.digest
        }
        if not sources:
            self._without_source(block, made, now_ns)
            return
        self._alien_since.pop(block.number, None)
        source, wanted = next(reversed(sources.items()))
        wrong += [node for node, each in made.items() if each.digest != block.digest]
        for node in filter(block.locations.__contains__, wrong):
            if not self.fetch(name, node, source=source, wanted=wanted):
                return  # Logs stay as long as one location has another segment (R42).
            made[node] = wanted
        if set(made) == set(block.locations):
            logs = {node for node, holding in there if holding.length or node in wrong}
            self._settle(name, {node: made[node] for node in made if node in logs})

    def _unlisted(
        self, block: Block, held: Mapping[str, Mapping[int, Holding]], now_ns: int
    ) -> list[tuple[str, Holding]]:
        """Give who has something of a block, once no location of it had for a while.

        A log that was sealed without its node, and ends where the record says, has all of it.
        """
        since = self._lost_since.setdefault(block.number, now_ns)
        if now_ns - since < START_DELAY_NS:
            return []
        found = [
            (node, holdings[block.number])
            for node, holdings in held.items()
            if block.number in holdings
        ]
        if not found and set(block.locations) <= held.keys():
            text = f"no node has anything of block {block.number} of {self._partition.name}"
            hint = "start nodes that had it, with their folders; what none has can be purged"
            error = DamagedEntry(text, path=", ".join(block.locations), hint=hint)
            self._tell(Done("finish", block.number, "", error))
        return found

    def fetch(self, name: BlockName, node: str, *, source: str, wanted: Finished) -> bool:
        """Have a node copy a segment; a source that turns out to have another one looks again."""
        try:
            self._peers(node).fetch(name, source, wanted)
        except QuiverError as error:
            self._tell(Done("copy", name.number, node, error))
            if isinstance(error, DamageError):
                self._verify(name, source)
            return False
        self._tell(Done("copy", name.number, node))
        return True

    def _verify(self, name: BlockName, node: str) -> None:
        """Have a node look whether its segment is rotten; it sets it aside then."""
        try:
            self._peers(node).verify(name)
        except QuiverError as error:
            self._tell(Done("verify", name.number, node, error))

    def _made(self, name: BlockName, block: Block, node: str) -> Finished:
        peer = self._peers(node)
        peer.cut(name, _sealed(block))
        made = peer.finish(name)
        self._tell(Done("finish", name.number, node))
        return made

    def _noted(self, block: Block, made: Finished) -> Block:
        def note(known: Block) -> Block:
            if known.digest:
                return known
            return finished(known, rows=made.rows, digest=made.digest)

        return self._partition.amend(block.number, note)

    def _without_source(self, block: Block, made: Mapping[str, Finished], now_ns: int) -> None:
        """Tell that nobody has what the record names; after a while name what is there."""
        since = self._alien_since.setdefault(block.number, now_ns)
        node, other = next(iter(made.items()))
        if now_ns - since >= START_DELAY_NS and self._noted_anew(block, made):
            self._alien_since.pop(block.number, None)
            return
        error = DamagedEntry(
            f"no location that answers has the segment of block {block.number} of "
            f"{self._partition.name} that the record names",
            path=node,
            expected=block.digest.hex(),
            found=other.digest.hex(),
        )
        self._tell(Done("finish", block.number, node, error))

    def _noted_anew(self, block: Block, made: Mapping[str, Finished]) -> bool:
        name = BlockName(self._partition.name, block.number)
        proven: dict[str, Finished] = {}
        for node, each in made.items():
            try:  # A copy of its own log that ends where the record says; a fetched one has none.
                self._peers(node).cut(name, _sealed(block))
            except QuiverError:
                continue
            proven[node] = each
        if not proven:
            return False
        chosen = _most(proven)

        def note(known: Block) -> Block:
            if known.digest != block.digest:
                return known
            return finished_anew(known, rows=chosen.rows, digest=chosen.digest)

        try:
            self._partition.amend(block.number, note)
        except InputError as error:
            self._tell(Done("finish", block.number, next(iter(proven)), error))
            return False
        self._tell(Done("name", block.number, next(iter(proven))))
        return True

    def _settle(self, name: BlockName, made: Mapping[str, Finished]) -> None:
        """Let logs go, now that all locations have the segment (R42)."""
        for node, each in made.items():
            try:
                self._peers(node).settle(name, each)
            except QuiverError as error:
                self._tell(Done("settle", name.number, node, error))
            else:
                self._tell(Done("settle", name.number, node))


def holders(block: Block, held: Mapping[str, Mapping[int, Holding]]) -> dict[str, Finished]:
    """Give who has the segment of the record, listed or not; the last location comes last."""
    found = {
        node: has
        for node, holdings in held.items()
        if block.number in holdings
        and (has := holdings[block.number].finished) is not None
        and has.digest == block.digest
    }
    return {node: found[node] for node in sorted(found, key=_place_in(block))}


def _place_in(block: Block) -> Callable[[str], int]:
    return lambda node: block.locations.index(node) if node in block.locations else -1


def _most(made: Mapping[str, Finished]) -> Finished:
    """Give what most of them made; of as many, that of the last location."""
    counts = Counter(each.digest for each in made.values())
    return max(made.values(), key=lambda each: counts[each.digest])


def _sealed(block: Block) -> Sealed:
    return Sealed(block.length, block.last_seq, block.start, block.end, ())
