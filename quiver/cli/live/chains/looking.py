"""Looks at a chain, again and again: metadata are read and nodes are asked, nothing is changed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from quiver.chain.membership import Member, Members, list_partitions
from quiver.chain.metadata import Metadata
from quiver.chain.peers import BlockName, Status
from quiver.chain.placing import START_DELAY_NS, Held, Repair, auditor_in, repairs
from quiver.chain.record import Block, Partition, Record
from quiver.cli.live.chains.look import ChainLook, NodeSeen, PartitionSeen, WantSeen
from quiver.clock import Clock, SystemClock
from quiver.errors import QuiverError

__all__ = ["ChainLooker"]

_WANTS_MAX: Final = 100
_ASKED_AT_ONCE: Final = 16

_Answers = dict[str, Status]


class ChainLooker:
    """Whoever looks. Not safe for threads, but for ``close``."""

    def __init__(self, metadata: Metadata, members: Members, *, clock: Clock | None = None) -> None:
        """Take the chain; nobody is asked yet."""
        self._metadata = metadata
        self._members = members
        self._clock = clock or SystemClock()
        self._partitions: dict[str, Partition] = {}
        self._pool = ThreadPoolExecutor(max_workers=_ASKED_AT_ONCE)

    def look(self) -> ChainLook:
        """Look once; what goes wrong is in what it gives."""
        begun = self._clock.monotonic_ns()
        try:
            look = self._seen(ChainLook(self._clock.wall_ns(), begun))
        except QuiverError as error:
            look = ChainLook(self._clock.wall_ns(), begun, problem=str(error))
        return replace(look, took_ns=self._clock.monotonic_ns() - begun)

    def close(self) -> None:
        """Ask no more."""
        self._pool.shutdown(wait=False)
        self._members.close()

    def _seen(self, look: ChainLook) -> ChainLook:
        members = self._members.look()
        auditor = auditor_in(self._metadata)
        answers: _Answers = {}
        nodes = {}
        for member, said in zip(members, self._pool.map(self._asked, members), strict=True):
            if isinstance(said, Status):
                answers[member.name] = said
            nodes[member.name] = _node(member, said, is_auditor=member.name == auditor)
        partitions, wants = [], []
        for name in list_partitions(self._metadata):
            try:
                partition, record = self._read(name)
                seen, wanted = _partition(
                    partition, record, answers, leaving=self._members.marked()
                )
            except QuiverError as error:
                partitions.append(PartitionSeen(name, fault=str(error)))
                continue
            partitions.append(seen)
            wants += wanted
            for location, field in zip(
                (seen.chain[:1] + seen.chain[-1:]), ("head_count", "tail_count"), strict=False
            ):
                if location in nodes:
                    known = nodes[location]
                    nodes[location] = known._replace(**{field: getattr(known, field) + 1})
        wants.sort(key=lambda want: want[0].order)
        return replace(
            look,
            nodes=tuple(nodes.values()),
            partitions=tuple(partitions),
            wants=tuple(seen for _, seen in wants[:_WANTS_MAX]),
            want_count=len(wants),
        )

    def _read(self, name: str) -> tuple[Partition, Record]:
        """Read a record; pages are kept from look to look."""
        if name not in self._partitions:
            self._partitions[name] = Partition(self._metadata, name, clock=self._clock)
        return self._partitions[name], self._partitions[name].read()

    def _asked(self, member: Member) -> Status | str:
        """Ask a node; gives why it does not answer, or nothing if it says that it is offline."""
        if member.state is None:
            return ""
        try:
            return self._members(member.name).status()
        except QuiverError as error:
            return error.message


def _node(member: Member, said: Status | str, *, is_auditor: bool) -> NodeSeen:
    state = said.state.value if isinstance(said, Status) else member.state_name
    is_reached = isinstance(said, Status)
    seen = NodeSeen(
        *(member.name, member.address, member.host, state, is_reached),
        *(member.free_bytes, member.total_bytes, is_auditor and is_reached),
    )
    if isinstance(said, str):
        return seen._replace(fault=said, state="not reached" if said else state)
    return seen._replace(
        free_bytes=said.free_bytes,
        total_bytes=said.total_bytes,
        copy_count=len(said.holdings),
        log_count=sum(each.finished is None for each in said.holdings),
    )


def _partition(
    partition: Partition, record: Record, answers: _Answers, *, leaving: frozenset[str]
) -> tuple[PartitionSeen, list[tuple[Repair, WantSeen]]]:
    """See one; what wants copies is told as if nobody was waited for."""
    blocks = [block for block in partition.blocks_now(record) if not block.is_abandoned]
    wants: list[tuple[Repair, WantSeen]] = []
    missing = [len(answers.keys() & set(block.locations)) for block in blocks]
    is_live = record.open is not None
    for block in blocks:
        wants += _wanted(partition.name, block, answers, leaving=leaving, is_live=is_live)
    seen = PartitionSeen(
        partition.name,
        "sealing" if record.sealing_by else "open" if record.open else "closed",
        record.writer,
        record.rf,
        len(blocks),
        sum(block.length for block in blocks),
    )
    if record.open is not None:
        there = len(answers.keys() & set(record.open.locations))
        missing.append(there)
        blocks.append(Block(record.open.number, 0, 0, 0, 0, 0, record.rf, record.open.locations))
        name = BlockName(partition.name, record.open.number)
        seen = seen._replace(
            open_number=record.open.number,
            chain=record.open.locations,
            lengths=tuple(_length(answers.get(each), name) for each in record.open.locations),
        )
    short = [there for there, block in zip(missing, blocks, strict=True) if there < block.rf]
    return seen._replace(wanted_count=len(short), lost_count=short.count(0)), wants


def _wanted(
    name: str, block: Block, answers: _Answers, *, leaving: frozenset[str], is_live: bool
) -> list[tuple[Repair, WantSeen]]:
    gone = {each: 0 for each in block.locations if each not in answers}
    found = repairs(
        [Held(name, block, is_live)],
        gone,
        now_ns=START_DELAY_NS,
        leaving=leaving & answers.keys(),
    )
    return [
        (each, WantSeen(name, each.number, each.want.words, each.present, block.rf))
        for each in found
    ]


def _length(said: Status | None, name: BlockName) -> int | None:
    if said is None:
        return None
    return next((each.length for each in said.holdings if each.name == name), None)
