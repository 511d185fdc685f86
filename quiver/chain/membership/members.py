"""All nodes as one sees them who reads their entries now and then."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Final

from quiver.chain.membership.member import (
    PREFIX,
    Member,
    decode_member,
    key_of,
    mark_of,
    marked_in,
    name_in,
)
from quiver.chain.metadata import Metadata, swap
from quiver.chain.peers import NodeState, Peer
from quiver.chain.placing import Node
from quiver.chain.record import is_partition_name
from quiver.chain.wire import RemotePeer, WireOptions
from quiver.clock import Clock
from quiver.errors import DamageError, MissingError, QuiverError, RemoteError

__all__ = ["GONE_NS", "Members", "list_partitions"]

GONE_NS: Final = 4_000_000_000
"""So long a counter may stand still; it goes up each second."""
_FRESH_NS: Final = 2_000_000_000
"""So long what was seen by the last look speaks for now."""
_PROMPT_NS: Final = 1_000_000_000
"""A look that takes longer waits for metadata that are away."""
_RECORD: Final = "/record"


def list_partitions(metadata: Metadata) -> list[str]:
    """List the partitions that there are, sorted; what has no name of one is none."""
    keys = metadata.keys("")
    return sorted(
        name
        for key in keys
        if key.endswith(_RECORD) and is_partition_name(name := key.removesuffix(_RECORD))
    )


class Members:
    """Reads the entries of nodes. Safe for many threads. It is a ``Peers``, too."""

    def __init__(
        self,
        metadata: Metadata,
        *,
        clock: Clock,
        options: WireOptions | None = None,
        own: Iterable[Peer] = (),
    ) -> None:
        """Take the metadata; ``own`` are nodes of this process."""
        self._metadata = metadata
        self._clock = clock
        self._options = options or WireOptions()
        self._lock = threading.Lock()
        self._members: dict[str, Member] = {}
        self._marked: frozenset[str] = frozenset()
        self._looked_ns = clock.monotonic_ns()
        self._is_away = False
        self._seen_ns: dict[str, int] = {}
        self._since_ns: dict[str, int] = {}
        self._peers: dict[str, Peer] = {peer.name: peer for peer in own}

    def add_own(self, peer: Peer) -> None:
        """Reach a node of this process without a wire."""
        with self._lock:
            self._peers[peer.name] = peer

    def look(self) -> list[Member]:
        """Read all entries, and give them by name; to be called every second or so.

        Time in which the metadata were away counts for nobody: no node could say anything.
        """
        begun = self._clock.monotonic_ns()
        try:
            keys = list(self._metadata.keys(PREFIX))
            found = [self._read(name) for key in keys if (name := name_in(key))]
        except QuiverError:
            with self._lock:
                self._is_away = True
            raise
        members = [member for member in found if member is not None]
        with self._lock:
            self._marked = frozenset(name for key in keys if (name := marked_in(key)))
            now = self._clock.monotonic_ns()
            took = max(now - begun - _PROMPT_NS, 0)
            self._skip(now - self._looked_ns if self._is_away else took)
            self._is_away, self._looked_ns = False, now
            before, self._members = self._members, {each.name: each for each in members}
            for member in members:
                known = before.get(member.name)
                if known is None or known.counter != member.counter:
                    self._seen_ns[member.name] = now
                if self._serves(member, now):
                    self._since_ns.pop(member.name, None)
                else:
                    self._since_ns.setdefault(member.name, now)
            for name in self._since_ns.keys() - self._members.keys():
                del self._since_ns[name]
        return members

    def _skip(self, away_ns: int) -> None:
        """Take a time out of all that is measured."""
        for times in (self._seen_ns, self._since_ns):
            for name in times:
                times[name] += away_ns

    def _now(self) -> int:
        """Say up to when something was heard of anybody, if that is some time ago."""
        fresh = 0 if self._is_away else _FRESH_NS
        return min(self._clock.monotonic_ns(), self._looked_ns + fresh)

    def members(self) -> list[Member]:
        """Give what ``look`` saw last."""
        with self._lock:
            return [self._members[name] for name in sorted(self._members)]

    def is_gone(self, name: str) -> bool:
        """Whether a node is not there, or said nothing for long."""
        with self._lock:
            member = self._members.get(name)
            return member is None or not self._is_heard(member, self._now())

    def mark(self, name: str) -> None:
        """Say that a node is to be left: no new blocks, and what it has goes to others.

        Raises MissingError if it never said that it is there, and what metadata raise.
        """
        if self._read(name) is None:
            raise MissingError(f"there is no node {name!r:.120}", path=name)
        if mark_of(name) not in self._metadata.keys(PREFIX):
            swap(self._metadata, mark_of(name), None, data=b"{}", clock=self._clock)
        self.look()

    def unmark(self, name: str) -> None:
        """Say that it is not; one that drains already takes blocks when it is started anew."""
        self._metadata.delete(mark_of(name))
        self.look()

    def marked(self) -> frozenset[str]:
        """Give the nodes that are to be left."""
        with self._lock:
            return self._marked

    def leaving(self) -> frozenset[str]:
        """Give those of them that still say that they are there."""
        with self._lock:
            now = self._now()
            members = self._members.values()
            return self._marked & {each.name for each in members if self._is_heard(each, now)}

    def nodes(self) -> list[Node]:
        """Give the nodes that serve, as blocks are placed on them; none that is to be left."""
        with self._lock:
            now = self._now()
            serving = [
                each
                for each in self._members.values()
                if self._serves(each, now) and each.name not in self._marked
            ]
        return [Node(each.name, each.free_bytes, each.total_bytes, each.host) for each in serving]

    def gone_since(self) -> dict[str, int]:
        """Give the nodes that do not serve, with the monotonic time since when."""
        with self._lock:
            return dict(self._since_ns)

    def __call__(self, name: str) -> Peer:
        """Give a node by its name; raises MissingError if it never said that it is there."""
        with self._lock:
            peer = self._peers.get(name)
            is_known = name in self._members
        if peer is not None:
            return peer
        if not is_known and self._read(name) is None:
            raise MissingError(f"there is no node {name!r:.120}", path=name)
        with self._lock:
            made = RemotePeer(name, lambda: self.address(name), options=self._options)
            return self._peers.setdefault(name, made)

    def close(self) -> None:
        """Let go of all connections; what is asked later makes new ones."""
        with self._lock:
            peers = [peer for peer in self._peers.values() if isinstance(peer, RemotePeer)]
        for peer in peers:
            peer.close()

    def address(self, name: str) -> str:
        """Say where a node is now: as its entry says, or as it said when that cannot be read."""
        try:
            member = self._read(name)
        except RemoteError:
            with self._lock:
                member = self._members.get(name)
        if member is None or not member.address:
            raise RemoteError(f"nobody knows where {name} is", path=name, retryable=True)
        return member.address

    def _read(self, name: str) -> Member | None:
        key = key_of(name)
        try:
            return decode_member(self._metadata.peek(key), f"{self._metadata.place}/{key}")
        except (MissingError, DamageError):
            return None

    def _serves(self, member: Member, now: int) -> bool:
        return member.state is NodeState.SERVING and self._is_heard(member, now)

    def _is_heard(self, member: Member, now: int) -> bool:
        is_offline = member.state is None
        return not is_offline and now - self._seen_ns.get(member.name, now) < GONE_NS
