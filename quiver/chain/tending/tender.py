"""One pass over a partition: what is sealed is finished, copies come back, what is gone is dropped.

::

    read the record -> ask all nodes what they have -> drop what the record says is gone
    -> finish sealed blocks -> let logs go -> copy what wants copies -> drop copies that none lists

What wants copies is told first, for those of all partitions are made in one order.

Each act may be done again, and by two auditors at once: what is agreed on changes by a swap, of the
block as it was seen. A record is read before the nodes are asked, so that nothing is taken for gone
which only came since.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from quiver.chain.peers import BlockName, Finished, Holding, Peers, promised
from quiver.chain.placing import START_DELAY_NS, Held, Node, choose, repairs
from quiver.chain.placing.choose import Random
from quiver.chain.placing.repairs import Want
from quiver.chain.record import Block, Claim, Partition, Record, abandoned, claimed
from quiver.chain.tending.closing import is_same
from quiver.chain.tending.finishing import Done, Finisher, holders
from quiver.errors import InputError, LockedError, MissingError, QuiverError

__all__ = ["Done", "Mend", "Tender", "abandon"]


class Mend(NamedTuple):
    """A block that wants copies, and what makes them."""

    order: tuple[int, bool, int, str]
    partition: str
    number: int
    act: Callable[[Mapping[str, Node]], list[Done]]
    """Called with the nodes that serve by then; raises what the metadata raise."""


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
        self._done: list[Done] = []
        self._finisher = Finisher(partition, peers=peers, tell=self._tell)
        self._mends: list[Mend] = []
        self._held: Mapping[str, Mapping[int, Holding]] = {}
        """What nodes had when a pass began."""

    def tend(
        self,
        nodes: Mapping[str, Node],
        gone_since: Mapping[str, int],
        *,
        now_ns: int,
        leaving: Collection[str] = (),
    ) -> list[Done]:
        """Do one pass with the nodes that serve; gives what was done, in order.

        Arguments and errors are those of ``look_after``.
        """
        done, mends = self.look_after(nodes, gone_since, now_ns=now_ns, leaving=leaving)
        for each in sorted(mends, key=lambda mend: mend.order):
            done += each.act(nodes)
        return done + self.drop_unlisted(now_ns)

    def look_after(
        self,
        nodes: Mapping[str, Node],
        gone_since: Mapping[str, int],
        *,
        now_ns: int,
        leaving: Collection[str] = (),
    ) -> tuple[list[Done], list[Mend]]:
        """Do what waits for no other partition; gives what was done, and what wants copies.

        ``gone_since`` has the others, each with the time of the monotonic clock since when; those
        ``leaving`` answer yet, and what they have is moved to others. Raises what the metadata
        raise; a node that fails is left for the next pass.
        """
        self._done, self._mends = [], []
        asked = sorted({*nodes, *leaving})
        seen = self._look(asked, now_ns)
        self._drop_gone(seen)
        for block in seen.blocks.values():
            self._finisher.finish(block, seen.held, now_ns=now_ns)
        seen_now = self._look(asked, now_ns)
        for block in seen_now.blocks.values():
            gone = {
                node: self._gone_since(node, seen_now, gone_since, now_ns=now_ns)
                for node in block.locations
                if block.number not in seen_now.held.get(node, {})
            }
            going = [each for each in block.locations if each in leaving and each not in gone]
            self._repair(block, gone, going, seen=seen_now, now_ns=now_ns)
        self._note_unlisted(seen, now_ns)
        return self._done, self._mends

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

    def _tell(self, done: Done) -> None:
        self._done.append(done)

    # dropping ----------------------------------------------------------------------------------

    def _drop_gone(self, seen: _Seen) -> None:
        """Drop what was purged, what ended empty, and what was made room for in vain."""
        record = seen.record
        below = record.open.number if record.open is not None else record.next_number
        recorded = {block.number for block in self._partition.blocks(record)}
        for node, holdings in seen.held.items():
            for number in holdings:
                if number < below and number not in recorded:
                    self._drop(number, node)

    def _note_unlisted(self, seen: _Seen, now_ns: int) -> None:
        unlisted = {
            (node, number)
            for node, holdings in seen.held.items()
            for number in holdings
            if number in seen.blocks and node not in seen.blocks[number].locations
        }
        self._unlisted = {each: self._unlisted.get(each, now_ns) for each in unlisted}
        self._held = seen.held

    def drop_unlisted(self, now_ns: int) -> list[Done]:
        """Drop copies that no record lists, once they were not for a while.

        At once would be too soon: somebody may just be about to list one.
        """
        self._done = []
        for (node, number), since in self._unlisted.items():
            if now_ns - since >= START_DELAY_NS:
                self._drop_spare(number, node)
        return self._done

    def _drop_spare(self, number: int, node: str) -> None:
        """Drop a copy that nobody lists and nobody wants, once all locations have the segment.

        It is condemned before the record is read. Whoever lists it asks the node for it before and
        behind that, and then it is not dropped; nor is one of those that this one is dropped for.
        """
        name = BlockName(self._name, number)
        try:
            token = self._peers(node).condemn(name)
        except QuiverError as error:
            self._done.append(Done("drop", number, node, error))
            return
        with suppress(MissingError):  # It was purged since.
            block = self._partition.block(self._partition.read(), number)
            sources = holders(block, self._held)
            if node in block.locations or not block.digest or not sources:
                return
            if len(block.locations) < block.rf:
                return  # It is all there is beside them, whether it counts or not.
            source, wanted = next(reversed(sources.items()))
            source = node if node in sources else source  # It is there: nobody else drops it.
            if all(self._is_there(name, each, source, wanted=wanted) for each in block.locations):
                self._drop(number, node, token)

    def _is_there(self, name: BlockName, node: str, source: str, *, wanted: Finished) -> bool:
        """Have a node keep the segment that it has, or copy it."""
        try:
            self._peers(node).fetch(name, source, wanted)
        except QuiverError as error:
            self._done.append(Done("copy", name.number, node, error))
            return False
        return True

    def _drop(self, number: int, node: str, condemned: int = 0) -> None:
        try:
            self._peers(node).drop(BlockName(self._name, number), condemned)
        except QuiverError as error:
            self._done.append(Done("drop", number, node, error))
        else:
            self._done.append(Done("drop", number, node))

    # repairing ---------------------------------------------------------------------------------

    def _gone_since(
        self, node: str, seen: _Seen, gone_since: Mapping[str, int], *, now_ns: int
    ) -> int:
        """Say since when a location has nothing: for long if it answers, and lacks the block."""
        if node in gone_since:
            return gone_since[node]
        if node in seen.held:
            return now_ns - START_DELAY_NS
        return self._unheard.setdefault(node, now_ns)  # Nobody says that it was ever there.

    def _repair(
        self,
        block: Block,
        gone: Mapping[str, int],
        going: Sequence[str],
        *,
        seen: _Seen,
        now_ns: int,
    ) -> None:
        """Have copied what has too few copies, or has some where they are not to stay."""
        present = tuple(each for each in block.locations if each not in (*gone, *going))
        held = Held(self._name, block, is_live=seen.record.open is not None)
        act = partial(self._copy, block, going=going, seen=seen)
        found = repairs([held], gone, now_ns=now_ns, leaving=going)
        for repair in found:
            mend = Mend(repair.order, self._name, block.number, partial(act, present))
            self._mends.append(mend)
        if found or present or any(now_ns - at < START_DELAY_NS for at in gone.values()):
            return
        if spare := tuple(holders(block, seen.held)):  # Nobody listed has it, and others do.
            order = (Want.LAST_COPY, not held.is_live, -block.end, self._name)
            self._mends.append(Mend(order, self._name, block.number, partial(act, spare)))

    def _copy(
        self,
        block: Block,
        present: tuple[str, ...],
        nodes: Mapping[str, Node],
        *,
        going: Sequence[str],
        seen: _Seen,
    ) -> list[Done]:
        """Make copies before the tail, and list them; those that go are listed while they count."""
        self._done = []
        name = BlockName(self._name, block.number)
        sources = dict(reversed(holders(block, seen.held).items()))
        if not sources:
            return self._done  # It is not finished yet.
        new = self._copied(name, nodes, block.rf, present=present, sources=sources)
        left = max(block.rf - len(new) - len(present), 0)
        locations = (*going[:left], *new, *present)
        moved = [node for node in going if node not in locations]
        if not new and not moved and set(present) <= set(block.locations):
            return self._done

        def relocate(known: Block) -> Block:
            return (
                known._replace(locations=locations) if known.locations == block.locations else known
            )

        try:
            listed = self._partition.amend(block.number, relocate).locations
        except (InputError, MissingError) as error:  # It was purged since.
            self._done.append(Done("list", block.number, locations[0], error))
            return self._done
        if listed == locations:
            self._done.extend(Done("move", block.number, node) for node in moved)
        for node in new:  # Another auditor may have dropped it before it was listed.
            if node in listed:
                source, wanted = next(iter(sources.items()))
                self._is_there(name, node, source, wanted=wanted)
        return self._done

    def _copied(
        self,
        name: BlockName,
        nodes: Mapping[str, Node],
        rf: int,
        *,
        present: tuple[str, ...],
        sources: Mapping[str, Finished],
    ) -> tuple[str, ...]:
        """Have it copied by nodes that are chosen, and by others instead of those that cannot."""
        new: tuple[str, ...] = ()
        left = dict(nodes)
        while True:
            kept = (*new, *present)
            chosen = choose(list(left.values()), rf, self._random, kept=kept).locations
            fresh = [node for node in chosen if node not in kept]
            for node in fresh:
                if any(  # Whoever is damaged, or not reached, is not the only one.
                    self._finisher.fetch(name, node, source=source, wanted=wanted)
                    for source, wanted in sources.items()
                ):
                    new = (node, *new)
                else:
                    del left[node]
            if left.keys() >= set(fresh):
                return new


def abandon(partition: Partition, seen: Record, *, by: str, peers: Peers) -> Record:
    """Give up the open block of which no location is left: somebody decided that of what he saw.

    ``by`` is a name that nobody else ever has. It is kept in the record as a block without entries,
    and none is open then. Raises InputError if no block is open, or if a location has it again: the
    claim stays then, so that nobody hears of more, and the block is sealed as that of any loader
    that is gone. Raises LockedError if the partition is not as it was ``seen``.
    """
    opened = seen.open
    if opened is None:
        raise InputError("no block is open")

    def claim(known: Record) -> Record:
        if not is_same(seen, known):
            raise LockedError(
                f"block {opened.number} of {partition.name} is not as it was: somebody wrote to "
                "the partition, or ended the block, meanwhile",
                hint=f"quiver chain ls {partition.name} --last 1",
            )
        return claimed(known, by, takes_over=True)

    taken = Claim(partition.change(claim).epoch, by)
    name = BlockName(partition.name, opened.number)
    for location in opened.locations:
        if _has(peers, location, block=name, epoch=taken.epoch):
            raise InputError(
                f"{location} has block {name.number} of {name.partition} again: it is not given up",
                hint="a loader that takes over seals it, or the nodes do within some minutes",
            )
    return partition.change(lambda known: abandoned(known, taken, following=None))


def _has(peers: Peers, location: str, *, block: BlockName, epoch: int) -> bool:
    """Whether a location promises, or says that it has the block: one that begins does not yet."""
    try:
        peer = peers(location)
        with suppress(QuiverError):
            promised(peer, location, block=block, epoch=epoch)
            return True
        status = peer.status()
    except QuiverError:
        return False
    return status.name == location and any(each.name == block for each in status.holdings)
