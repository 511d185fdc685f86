"""One pass over a partition: what is sealed is finished, copies come back, what is gone is dropped.

::

    read the record -> ask all nodes what they have -> drop what the record says is gone
    -> finish sealed blocks -> let logs go -> copy what wants copies -> drop copies that none lists

Each act may be done again, and by two auditors at once: what is agreed on changes by a swap, of the
block as it was seen. A record is read before the nodes are asked, so that nothing is taken for gone
which only came since.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from quiver.chain.peers import BlockName, Finished, Holding, Peers
from quiver.chain.placing import START_DELAY_NS, Held, Node, choose, repairs
from quiver.chain.placing.choose import Random
from quiver.chain.record import Block, Claim, Partition, Record, abandoned, claimed, finished
from quiver.chain.sealing import Sealed
from quiver.errors import InputError, MissingError, QuiverError

__all__ = ["Done", "Tender", "abandon"]


class Done(NamedTuple):
    """One act of a pass, or why it could not be done now."""

    act: str
    number: int
    node: str
    error: QuiverError | None = None


class _Seen(NamedTuple):
    """What there was when a pass began."""

    record: Record
    blocks: dict[int, Block]
    held: dict[str, dict[int, Holding]]
    """By node, of those that answer, and by number."""


class Tender:
    """Tends one partition. Not safe for threads."""

    def __init__(self, partition: Partition, name: str, *, peers: Peers, random: Random) -> None:
        """Take a partition; nothing is done before a pass."""
        self._partition = partition
        self._name = name
        self._peers = peers
        self._random = random
        self._unlisted: dict[tuple[str, int], int] = {}
        self._unheard: dict[str, int] = {}
        """Nodes that should serve, and do not answer; since when."""
        self._settled: set[tuple[str, int]] = set()
        """What needs not be told again; another auditor tells it once more."""
        self._done: list[Done] = []

    def tend(
        self,
        nodes: Mapping[str, Node],
        gone_since: Mapping[str, int],
        *,
        now_ns: int,
        leaving: Collection[str] = (),
    ) -> list[Done]:
        """Do one pass with the nodes that serve; gives what was done, in order.

        ``gone_since`` has the others, each with the time of the monotonic clock since when; those
        ``leaving`` answer yet, and what they have is moved to others. Raises what the metadata
        raise; a node that fails is left for the next pass.
        """
        self._done = []
        asked = sorted({*nodes, *leaving})
        seen = self._look(asked, now_ns)
        self._drop_gone(seen)
        for block in seen.blocks.values():
            self._finish(block, seen)
        seen_now = self._look(asked, now_ns)
        for block in seen_now.blocks.values():
            gone = {
                node: self._gone_since(node, seen_now, gone_since, now_ns=now_ns)
                for node in block.locations
                if block.number not in seen_now.held.get(node, {})
            }
            going = [each for each in block.locations if each in leaving and each not in gone]
            self._repair(block, gone, going, nodes=nodes, seen=seen_now, now_ns=now_ns)
        self._drop_unlisted(seen, now_ns)
        return self._done

    def _look(self, nodes: Collection[str], now_ns: int) -> _Seen:
        record = self._partition.read()
        blocks = {
            block.number: block
            for block in self._partition.blocks_now(record)
            if not block.is_abandoned
        }
        held: dict[str, dict[int, Holding]] = {}
        for node in nodes:
            try:
                holdings = self._peers(node).status().holdings
            except QuiverError as error:
                self._unheard.setdefault(node, now_ns)
                self._done.append(Done("ask", -1, node, error))
                continue
            self._unheard.pop(node, None)
            held[node] = {
                each.name.number: each for each in holdings if each.name.partition == self._name
            }
        return _Seen(record, blocks, held)

    # dropping ----------------------------------------------------------------------------------

    def _drop_gone(self, seen: _Seen) -> None:
        """Drop what was purged, what ended empty, and what was made room for in vain."""
        record = seen.record
        below = record.open.number if record.open is not None else record.next_number
        recorded = {block.number for block in self._partition.blocks(record)}
        for node, holdings in seen.held.items():
            for number in holdings:
                if number < below and number not in recorded:
                    self._do("drop", number, node)

    def _drop_unlisted(self, seen: _Seen, now_ns: int) -> None:
        """Drop copies that no record lists, once they were not for a while.

        At once would be too soon: somebody may just be about to list one.
        """
        unlisted = {
            (node, number)
            for node, holdings in seen.held.items()
            for number in holdings
            if number in seen.blocks and node not in seen.blocks[number].locations
        }
        self._unlisted = {each: self._unlisted.get(each, now_ns) for each in unlisted}
        for (node, number), since in self._unlisted.items():
            if now_ns - since >= START_DELAY_NS:
                with suppress(MissingError):  # It was purged since.
                    block = self._partition.block(self._partition.read(), number)
                    if node not in block.locations:
                        self._do("drop", number, node)

    def _do(self, act: str, number: int, node: str) -> None:
        try:
            self._peers(node).drop(BlockName(self._name, number))
        except QuiverError as error:
            self._done.append(Done(act, number, node, error))
        else:
            self._done.append(Done(act, number, node))

    # finishing ---------------------------------------------------------------------------------

    def _finish(self, block: Block, seen: _Seen) -> None:
        """Have all locations make the segment, note what it is, and let the logs go.

        The record's is the one of the last location that made it; others that made other bytes
        fetch it.
        """
        name = BlockName(self._name, block.number)
        made: dict[str, Finished] = {}
        for node in reversed(block.locations):
            holding = seen.held.get(node, {}).get(block.number)
            if holding is None:
                continue
            try:
                made[node] = holding.finished or self._made(name, block, node)
            except QuiverError as error:
                self._done.append(Done("finish", block.number, node, error))
        if not block.digest and made:
            first = next(iter(made.values()))
            block = self._noted(block, first)
        source = next((node for node, each in made.items() if each.digest == block.digest), None)
        if source is None:
            return
        for node, each in made.items():
            if each.digest != block.digest:
                if not self._fetch(name, node, source=source, wanted=made[source]):
                    return  # Logs stay as long as one location has another segment (R42).
                made[node] = made[source]
        if set(made) == set(block.locations):
            self._settle(name, made)

    def _made(self, name: BlockName, block: Block, node: str) -> Finished:
        sealed = Sealed(block.length, block.last_seq, block.start, block.end, ())
        peer = self._peers(node)
        peer.cut(name, sealed)
        made = peer.finish(name)
        self._done.append(Done("finish", name.number, node))
        return made

    def _noted(self, block: Block, made: Finished) -> Block:
        def note(known: Block) -> Block:
            if known.digest:
                return known
            return finished(known, rows=made.rows, digest=made.digest)

        return self._partition.amend(block.number, note)

    def _settle(self, name: BlockName, made: Mapping[str, Finished]) -> None:
        """Let logs go, now that all locations have the segment (R42)."""
        for node, each in made.items():
            if (node, name.number) in self._settled:
                continue
            try:
                self._peers(node).settle(name, each)
            except QuiverError as error:
                self._done.append(Done("settle", name.number, node, error))
            else:
                self._done.append(Done("settle", name.number, node))
                self._settled.add((node, name.number))

    def _fetch(self, name: BlockName, node: str, *, source: str, wanted: Finished) -> bool:
        try:
            self._peers(node).fetch(name, source, wanted)
        except QuiverError as error:
            self._done.append(Done("copy", name.number, node, error))
            return False
        self._done.append(Done("copy", name.number, node))
        return True

    # repairing ---------------------------------------------------------------------------------

    def _gone_since(
        self, node: str, seen: _Seen, gone_since: Mapping[str, int], *, now_ns: int
    ) -> int:
        """Say since when a location has nothing: for long if it answers, and lacks the block."""
        if node in gone_since:
            return gone_since[node]
        return now_ns - START_DELAY_NS if node in seen.held else self._unheard.get(node, now_ns)

    def _repair(
        self,
        block: Block,
        gone: Mapping[str, int],
        going: Sequence[str],
        *,
        nodes: Mapping[str, Node],
        seen: _Seen,
        now_ns: int,
    ) -> None:
        """Copy what has too few copies, or has some where they are not to stay."""
        present = tuple(each for each in block.locations if each not in (*gone, *going))
        held = Held(self._name, block, is_live=seen.record.open is not None)
        if going or repairs([held], gone, now_ns=now_ns):
            self._copy(block, present, going, nodes=nodes, seen=seen)

    def _copy(
        self,
        block: Block,
        present: tuple[str, ...],
        going: Sequence[str],
        *,
        nodes: Mapping[str, Node],
        seen: _Seen,
    ) -> None:
        """Make copies before the tail, and list them; those that go are listed while they count."""
        name = BlockName(self._name, block.number)
        holders = {node: seen.held[node][block.number].finished for node in (*present, *going)}
        sources = {
            node: has
            for node in (*reversed(present), *going)
            if (has := holders[node]) is not None and has.digest == block.digest
        }
        if not sources:
            return  # It is not finished yet.
        chosen = choose(list(nodes.values()), block.rf, self._random, kept=present).locations
        new = tuple(
            node
            for node in chosen
            if node not in present
            and any(  # Whoever is damaged, or not reached, is not the only one.
                self._fetch(name, node, source=source, wanted=wanted)
                for source, wanted in sources.items()
            )
        )
        left = max(block.rf - len(new) - len(present), 0)
        locations = (*going[:left], *new, *present)
        moved = [node for node in going if node not in locations]
        if not new and not moved:
            return

        def relocate(known: Block) -> Block:
            return (
                known._replace(locations=locations) if known.locations == block.locations else known
            )

        try:
            self._partition.amend(block.number, relocate)
        except (InputError, MissingError) as error:  # It was purged since.
            self._done.append(Done("list", block.number, locations[0], error))
        else:
            self._done.extend(Done("move", block.number, node) for node in moved)


def abandon(partition: Partition, by: str) -> Record:
    """Give up the open block of which no location is left: somebody decided that.

    ``by`` is a name that nobody else ever has. It is kept in the record as a block without entries,
    and none is open then. Raises InputError if no block is open.
    """
    record = partition.change(lambda known: claimed(known, by, takes_over=True))
    claim = Claim(record.epoch, by)
    return partition.change(lambda known: abandoned(known, claim, following=None))
