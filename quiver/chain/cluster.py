"""A client of a chain: loaders and cursors by way of any node that is known."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Self

from quiver.addresses import parse_address
from quiver.chain.loading import Loader, LoaderRules
from quiver.chain.loading.tasks import Surroundings
from quiver.chain.membership import Members, list_partitions
from quiver.chain.metadata import Metadata, open_metadata, swap
from quiver.chain.peers import decode_layout, encode_layout
from quiver.chain.placing import Node
from quiver.chain.reading import ChainCursor, CursorRules
from quiver.chain.reading.following import Followed, follow
from quiver.chain.subscribing import (
    ChainSubscription,
    Purged,
    Reach,
    SubscriberRules,
    SubscriberView,
    drop_subscriber,
    is_ack_partition,
    list_subscribers,
    pause_subscriber,
    purge_acked,
    rename_subscriber,
    reset_subscriber,
)
from quiver.chain.subscribing.log import SLOT
from quiver.chain.subscribing.starting import start_subscriber
from quiver.chain.wire import CarriedMetadata, RemotePeer, Tls, WireOptions
from quiver.chain.workers import ThreadWorkers
from quiver.clock import Clock, SystemClock
from quiver.engine.start import Start
from quiver.errors import ConfigError, InputError, MissingError, QuiverError
from quiver.slots import Slot, SlotTable

__all__ = ["Cluster", "connect", "is_address"]

_LOOK_PATIENCE: Final = 3.0
"""Seconds for which marks that nobody gives are waited for, by whoever only looks."""
_SCHEMES: Final = ("quiver://", "quiver+tls://")


def is_address(where: str) -> bool:
    """Whether something is the address of a node, by what it begins with."""
    return where.startswith(_SCHEMES)


def connect(
    where: str | Sequence[str],
    *,
    tls: Tls | None = None,
    token: str = "",
    options: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    wire: WireOptions | None = None,
) -> Cluster:
    """Connect to nodes, or to where they keep their metadata; nobody is asked yet.

    ``where`` is ``quiver://host:port,host:port``, a list of such, ``quiver+tls://`` if by TLS
    alone, or the URL of the metadata. Of nodes any one may be up. To be called after a fork.
    """
    spoken = wire or WireOptions(tls=tls, token=token)
    given = [where] if isinstance(where, str) else list(where)
    if not given:
        raise ConfigError("nowhere to connect to", hint="as quiver://host:port,host:port")
    if len(given) == 1 and not is_address(given[0]):
        metadata = open_metadata(given[0], options=options, environ=environ)
        return Cluster(metadata, options=spoken)
    peers = [_peer(address, spoken) for each in given for address in _addresses(each, spoken)]
    return Cluster(CarriedMetadata(peers, ",".join(given)), options=spoken)


class Cluster:
    """Partitions that are kept by nodes. Safe for many threads."""

    def __init__(
        self, metadata: Metadata, *, options: WireOptions | None = None, clock: Clock | None = None
    ) -> None:
        """Take the metadata; nothing is read yet."""
        self._metadata = metadata
        self._options = options or WireOptions()
        self._clock = clock or SystemClock()
        self._workers = ThreadWorkers()
        self.members = Members(metadata, clock=self._clock, options=self._options)

    @property
    def metadata(self) -> Metadata:
        """What its nodes agree on."""
        return self._metadata

    def partitions(self) -> list[str]:
        """List the partitions that there are, sorted, without what subscribers keep."""
        found = list_partitions(self._metadata)
        return [name for name in found if not is_ack_partition(name)]

    def slots(self, partition: str) -> SlotTable | None:
        """Give the slots of a partition; None as long as nobody has begun to load it."""
        try:
            data = self._metadata.get(f"{partition}/layout").data
        except MissingError:
            return None
        return decode_layout(data.decode("utf-8", "replace"))

    def loader(
        self,
        partition: str,
        slots: SlotTable | Mapping[str, int] | Iterable[str | Slot],
        *,
        rules: LoaderRules | None = None,
    ) -> Loader:
        """Take a partition to write it; see ``Loader``. Its slots stay what they were at first."""
        if is_ack_partition(partition):
            raise InputError(f"{partition} is what a subscriber keeps its marks in")
        return self._load(partition, slots, rules)

    def _load(
        self,
        partition: str,
        slots: SlotTable | Mapping[str, int] | Iterable[str | Slot],
        rules: LoaderRules | None,
    ) -> Loader:
        table = SlotTable.of(slots)
        self._keep_layout(partition, table)
        around = Surroundings(
            self._metadata,
            self.members,
            self._nodes,
            self._workers,
            self._clock,
            secrets.SystemRandom(),
        )
        return Loader(around, partition, table, rules=rules)

    def cursor(
        self,
        partitions: str | Sequence[str],
        *,
        start: int | None = None,
        end: int | None = None,
        live: bool = False,
        position: Mapping[str, tuple[int, int]] | None = None,
        idle_seconds: float = 2.0,
    ) -> ChainCursor:
        """Read partitions in order of time, from ``start`` to ``end``, both included.

        Times are nanoseconds since 1970. ``live`` goes on with what comes; ``position`` goes on
        behind what another cursor gave last.
        """
        given: dict[str, Any] = {"live": live, "idle_seconds": idle_seconds}
        if start is not None:
            given["start_ns"] = start
        if end is not None:
            given["end_ns"] = end
        rules = CursorRules(position=position or {}, **given)
        names = [partitions] if isinstance(partitions, str) else list(partitions)
        return ChainCursor(names, self._followed, rules=rules, clock=self._clock)

    def subscribe(
        self,
        name: str,
        partitions: str | Sequence[str] = (),
        *,
        start: Start = "earliest",
        rules: SubscriberRules | None = None,
    ) -> ChainSubscription:
        """Take bundles as the subscriber ``name``, which is registered if it is new.

        Bundles of finished blocks with all their copies come, of these partitions, or of all that
        there are and come. A new subscriber gets everything that is still there, or what ``start``
        says: ``"latest"`` is what no sealed block has yet, a time (nanoseconds since 1970,
        ``datetime``, ISO 8601) what is of that time or later. Its marks and acks are a partition of
        their own, with as many copies. Whoever had the name is fenced. Names: as a store's, up to
        95 characters.
        """
        given = [partitions] if isinstance(partitions, str) else list(partitions)
        return start_subscriber(
            self._reach(), name, given, start=start, rules=rules or SubscriberRules()
        )

    def subscribers(self) -> list[SubscriberView]:
        """Give all subscribers, by name, with how far they are with each partition."""
        return list_subscribers(self._reach(patience=_LOOK_PATIENCE))

    def unsubscribe(self, name: str) -> None:
        """Forget a subscriber for good; whoever has the name is fenced."""
        drop_subscriber(self._reach(), name)

    def pause(self, name: str) -> None:
        """Deliver nothing to a subscriber until ``resume``; whoever has the name is fenced.

        What it has not had is kept for it, however long that is.
        """
        pause_subscriber(self._reach(), name, is_paused=True)

    def resume(self, name: str) -> None:
        """Deliver again; whoever has the name is fenced, and goes on by subscribing again."""
        pause_subscriber(self._reach(), name, is_paused=False)

    def reset(self, name: str, start: Start = "earliest") -> None:
        """Have a subscriber begin anew, where ``subscribe`` would; whoever has the name is fenced.

        What it acked comes again as far as it is still there; its dead letters are forgotten.
        """
        reset_subscriber(self._reach(), name, start)

    def rename(self, name: str, new_name: str) -> None:
        """Give a subscriber another name, under which it goes on; whoever has it is fenced.

        Raises SubscriberError if there is one of that name. May be done again if it broke off.
        """
        rename_subscriber(self._reach(), name, new_name)

    def purge_acked(self, partitions: str | Sequence[str] = ()) -> list[Purged]:
        """Purge blocks of which every subscriber of their partition is done with all bundles.

        Nothing is ever purged by itself. Blocks with dead letters stay, and what is behind them;
        so does a partition that nobody subscribed to.
        """
        given = [partitions] if isinstance(partitions, str) else list(partitions)
        return purge_acked(self._reach(), given)

    def close(self) -> None:
        """Let go of connections; loaders and cursors are closed by themselves."""
        self.members.close()

    def __enter__(self) -> Self:
        """Give itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def _nodes(self) -> list[Node]:
        self.members.look()
        return self.members.nodes()

    def _followed(self, partition: str) -> Followed:
        def slots() -> SlotTable | None:
            return self.slots(partition)

        return Followed(
            self._metadata, self.members, self._clock, partition, slots, start_ns=0, end_ns=0
        )

    def _reach(self, patience: float = 30.0) -> Reach:
        return Reach(
            self._metadata,
            self.members,
            self._clock,
            self.partitions,
            self.slots,
            lambda name, rules: self._load(name, [SLOT], rules),
            lambda name: follow(
                replace(self._followed(name), end_ns=(1 << 63) - 1, patience=patience)
            ),
        )

    def _keep_layout(self, partition: str, slots: SlotTable) -> None:
        if self.slots(partition) is None:
            data = encode_layout(slots).encode()
            swap(self._metadata, f"{partition}/layout", None, data=data, clock=self._clock)
        known = self.slots(partition)
        if known is None or encode_layout(known) != encode_layout(slots):
            raise InputError(
                f"{partition} has other slots: {', '.join(slot.name for slot in known or ())}",
                hint="a partition keeps the slots that it began with",
            )


def _addresses(text: str, options: WireOptions) -> list[str]:
    scheme, _, rest = text.partition("://")
    if f"{scheme}://" not in _SCHEMES:
        raise ConfigError(f"{text!r:.120} is no address of a node", hint="as quiver://host:port")
    if scheme == "quiver+tls" and options.tls is None:
        hint = "tls=read_tls(cert, key, ca); on the command line --tls-cert, --tls-key, --tls-ca"
        raise ConfigError("quiver+tls:// needs certificates", hint=hint)
    found = rest.rstrip("/").split(",")
    for each in found:
        try:
            parse_address(each)
        except QuiverError as error:
            hint = "as quiver://host:port,host:port"
            raise ConfigError(f"{each!r:.120} is no address of a node", hint=hint) from error
    return found


def _peer(address: str, options: WireOptions) -> RemotePeer:
    return RemotePeer("", lambda: address, options=options)
