"""Every order of events in one block of a chain: writing, syncing, fencing, power losses, sealing.

The state of a block is small: all copies are prefixes of one sequence of bundles, so a copy is its
length. ``search`` walks through all states that can be reached, with the project's own ``admit``,
``promise``, ``decide``, ``claimed`` and ``committed`` at each step, and looks for one in which a
reader saw what the seal dropped, or in which a listed copy lacks what was sealed. Each ``Rules``
but the first kind plants a short cut that loses data; what the search has to say of them is part of
the tests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from quiver.chain.record import Claim, Following, Record, claimed, committed
from quiver.chain.sealing import Answer, Copy, Frame, Sealed, admit, decide, promise
from quiver.errors import FencedError, InputError

__all__ = ["Found", "Rules", "search"]


EPOCH_MAX = 3
"""The loader's is 1; then one for each sealer."""


@dataclass(frozen=True)
class Rules:
    """How the chain is played, and how much may happen."""

    replicas: int = 2
    bundles: int = 2
    losses: int = 1
    """So many times a machine loses its power."""
    is_synced: bool = True
    """Each location syncs before it forwards; if not, it forwards what the page cache has."""
    # Short cuts:
    fences: bool = True
    forwards_early: bool = False
    """Forwards before its own sync, though a reader sees what the tail has."""
    head_tells: bool = False
    """A reader sees what all have synced, and not what the tail has."""
    takes_longest: bool = False
    asks_rebooted: bool = False
    """Takes the shortest of all, whoever lost its power."""
    cuts_early: bool = False
    """Cuts the copies to the length before it is committed."""
    claims: bool = True
    """Each sealer has an epoch of its own; if not, two may use the same."""
    keeps_promise: bool = True
    """What was promised survives a power loss."""


class Node(NamedTuple):
    """One location."""

    synced: int = 0
    written: int = 0
    sent: int = 0
    epoch: int = 0
    is_rebooted: bool = False


class Sealer(NamedTuple):
    """Somebody who ends the block."""

    epoch: int = 0
    """0: has not claimed one yet."""
    heard: tuple[tuple[int, bool] | None, ...] = ()
    planned: Sealed | None = None
    """What it is going to commit; if ``cuts_early``."""


class State(NamedTuple):
    """All there is."""

    nodes: tuple[Node, ...]
    sealers: tuple[Sealer, Sealer]
    record: Record
    seen: int = 0
    """What a reader saw."""
    losses: int = 0

    @property
    def length(self) -> int:
        """Of the sealed block, 0 if it was dropped; -1 while it is open."""
        if self.record.open is not None:
            return -1
        return self.record.recent[0].length if self.record.recent else 0

    def is_kept(self, number: int) -> bool:
        """Whether a location is listed for the sealed block."""
        return any(str(number) in block.locations for block in self.record.recent)


@dataclass(frozen=True)
class Found:
    """What a search came to."""

    states: int
    fault: str = ""
    steps: tuple[str, ...] = ()


def search(rules: Rules, states_max: int = 10_000_000) -> Found:
    """Go through all states, nearest first; ends at the first fault."""
    names = tuple(str(each) for each in range(rules.replicas))
    record = claimed(Record(is_rising=False), "loader")
    record = committed(record, Claim(1, "loader"), None, following=Following("loader", names))
    first = State((Node(epoch=1),) * rules.replicas, (Sealer(), Sealer()), record)
    came: dict[State, tuple[State, str] | None] = {first: None}
    waiting = deque([first])
    while waiting:
        state = waiting.popleft()
        for step, after in steps(state, rules):
            if after in came:
                continue
            came[after] = state, step
            fault = wrong(after, rules)
            if fault:
                return Found(len(came), fault, way(came, after))
            if len(came) > states_max:
                raise MemoryError(f"more than {states_max:,} states")
            waiting.append(after)
    return Found(len(came))


def way(came: dict[State, tuple[State, str] | None], state: State) -> tuple[str, ...]:
    """Tell the steps that led to a state."""
    told = []
    before = came[state]
    while before is not None:
        state, step = before
        told.append(step)
        before = came[state]
    return tuple(reversed(told))


def wrong(state: State, rules: Rules) -> str:
    """Say what may never be; empty if all is well."""
    if state.length < 0:
        return ""
    if state.seen > state.length:
        return "a reader saw what the seal dropped"
    for bit, node in enumerate(state.nodes):
        has = node.synced if rules.is_synced else node.written
        if has < state.length and state.is_kept(bit):
            return "a listed copy is shorter than the block"
    return ""


def steps(state: State, rules: Rules) -> Iterator[tuple[str, State]]:
    """Give all that can happen next."""
    for number in range(rules.replicas):
        yield from node_steps(state, number, rules)
    for number in range(2):
        yield from sealer_steps(state, number, rules)


# locations ---------------------------------------------------------------------------------------


def put(state: State, number: int, node: Node, rules: Rules) -> State:
    """Change one location, and let the reader see what it may see then."""
    nodes = (*state.nodes[:number], node, *state.nodes[number + 1 :])
    has = [each.synced if rules.is_synced else each.written for each in nodes]
    shown = min(has) if rules.head_tells else has[-1]
    return state._replace(nodes=nodes, seen=max(state.seen, shown))


def node_steps(state: State, number: int, rules: Rules) -> Iterator[tuple[str, State]]:
    """Write what came, sync, forward, lose power, cut to the sealed length."""
    node = state.nodes[number]
    upstream = rules.bundles if number == 0 else state.nodes[number - 1].sent
    if node.written < upstream and not node.is_rebooted:
        try:
            copy = admit(Copy(node.epoch, node.written), Frame(1, node.written, 1))
        except (FencedError, InputError):
            pass
        else:
            yield f"{number} writes", put(state, number, node._replace(written=copy.length), rules)
    if rules.is_synced and node.synced < node.written:
        yield f"{number} syncs", put(state, number, node._replace(synced=node.written), rules)
    has = node.synced if rules.is_synced and not rules.forwards_early else node.written
    if node.sent < has and number < rules.replicas - 1 and not node.is_rebooted:
        yield f"{number} forwards", put(state, number, node._replace(sent=node.sent + 1), rules)
    if state.losses < rules.losses:
        lost = node._replace(written=node.synced, is_rebooted=True)
        if not rules.keeps_promise:
            lost = lost._replace(epoch=1, is_rebooted=False)  # It goes on as if nothing were.
        yield (
            f"{number} loses power",
            put(state, number, lost, rules)._replace(losses=state.losses + 1),
        )
    if 0 <= state.length < node.written and state.is_kept(number):
        yield f"{number} is cut", put(state, number, cut(node, state.length), rules)


def cut(node: Node, length: int) -> Node:
    """Shorten a copy."""
    return node._replace(written=min(node.written, length), synced=min(node.synced, length))


# sealers -----------------------------------------------------------------------------------------


def set_sealer(state: State, number: int, sealer: Sealer) -> State:
    """Change one sealer."""
    pair = list(state.sealers)
    pair[number] = sealer
    return state._replace(sealers=(pair[0], pair[1]))


def sealer_steps(state: State, number: int, rules: Rules) -> Iterator[tuple[str, State]]:
    """Claim, fence, decide, commit; start over when somebody else was first."""
    sealer = state.sealers[number]
    who = f"sealer {number}"
    if sealer.planned is not None:
        yield from carry_out(state, number, rules)
    if state.length >= 0 or sealer.planned is not None:
        return
    nobody = (None,) * rules.replicas
    if not sealer.epoch:
        record = claim(state.record, who, rules)
        if record.epoch <= EPOCH_MAX:
            started = set_sealer(state, number, Sealer(record.epoch, nobody))
            yield f"{who} claims", started._replace(record=record)
        return
    if sealer.epoch != state.record.epoch < EPOCH_MAX:
        yield f"{who} starts over", set_sealer(state, number, Sealer())
    for each in range(rules.replicas):
        if sealer.heard[each] is None:
            yield from fence(state, number, each, rules)
    yield from commit(state, number, rules)


def fence(state: State, number: int, each: int, rules: Rules) -> Iterator[tuple[str, State]]:
    """Ask one location, which promises and syncs before it answers."""
    sealer, node = state.sealers[number], state.nodes[each]
    if rules.fences:
        try:
            copy = promise(Copy(node.epoch, node.written), sealer.epoch)
        except FencedError:
            return
        node = node._replace(epoch=copy.epoch)
    node = node._replace(synced=node.written)
    answer = node.written, node.is_rebooted
    heard = (*sealer.heard[:each], answer, *sealer.heard[each + 1 :])
    asked = set_sealer(put(state, each, node, rules), number, sealer._replace(heard=heard))
    yield f"sealer {number} fences {each}", asked


def commit(state: State, number: int, rules: Rules) -> Iterator[tuple[str, State]]:
    """Decide by what was heard so far, and put it into the record if nobody was faster."""
    sealer = state.sealers[number]
    sealed = decided(sealer, rules)
    if sealed is None:
        return
    if rules.cuts_early:
        planned = sealer._replace(planned=sealed)
        yield f"sealer {number} decides", set_sealer(state, number, planned)
        return
    record = ended(state.record, number, sealer._replace(planned=sealed), rules)
    if record is not None:
        after = state._replace(record=record, sealers=(Sealer(), Sealer()))
        yield f"sealer {number} commits", after


def carry_out(state: State, number: int, rules: Rules) -> Iterator[tuple[str, State]]:
    """Cut the copies before the record says so: a location obeys who it promised to."""
    sealer = state.sealers[number]
    assert sealer.planned is not None
    length = sealer.planned.length
    for each, node in enumerate(state.nodes):
        is_kept = str(each) in sealer.planned.keep
        if is_kept and node.epoch == sealer.epoch and node.written > length:
            nodes = (*state.nodes[:each], cut(node, length), *state.nodes[each + 1 :])
            yield f"sealer {number} cuts {each}", state._replace(nodes=nodes)
    record = ended(state.record, number, sealer, rules)
    if record is not None:
        done = set_sealer(state._replace(record=record), number, Sealer())
        yield f"sealer {number} commits", done


@cache
def claim(record: Record, who: str, rules: Rules) -> Record:
    """Claim with the project's own code; the short cut is to share the first claim."""
    if rules.claims:
        return claimed(record, who, takes_over=True)
    return record if record.sealing_by else claimed(record, "both", takes_over=True)


@cache
def ended(record: Record, number: int, sealer: Sealer, rules: Rules) -> Record | None:
    """Commit with the project's own code; None if that is refused."""
    who = f"sealer {number}" if rules.claims else "both"
    try:
        return committed(record, Claim(sealer.epoch, who), sealer.planned, following=None)
    except FencedError:
        return None


def decided(sealer: Sealer, rules: Rules) -> Sealed | None:
    """Ask the project's own code, or play the short cut in its place."""
    names = [str(each) for each in range(len(sealer.heard))]
    answers = [
        Answer(name, heard[0], heard[0] - 1, 0, heard[0], is_rebooted=heard[1])
        for name, heard in zip(names, sealer.heard, strict=True)
        if heard is not None
    ]
    if rules.takes_longest and answers:
        length = max(each.length for each in answers)
        keep = tuple(each.location for each in answers if each.length == length)
        return Sealed(length, length - 1, 0, length, keep)
    found = decide(names, answers, is_synced=rules.is_synced or rules.asks_rebooted)
    return found if isinstance(found, Sealed) else None
