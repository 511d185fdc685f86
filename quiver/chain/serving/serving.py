"""A node from the start of its process to its end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Final, Self

from quiver.addresses import parse_address
from quiver.chain.copies import Copies, CopyRules, Generation
from quiver.chain.membership import Members, Registration
from quiver.chain.membership.member import check_node_name
from quiver.chain.metadata import Metadata
from quiver.chain.node import LocalNode
from quiver.chain.peers import NodeState, as_fault
from quiver.chain.serving.auditing import Auditing, AuditRules
from quiver.chain.serving.scrubbing import Scrubbing, ScrubRules
from quiver.chain.serving.syncing import sync_with_records
from quiver.chain.wire import RemotePeer, Server, WireOptions
from quiver.chain.workers import ThreadWorkers
from quiver.clock import Clock
from quiver.disk import Disk, foreign_path, read_foreign
from quiver.errors import LockedError, QuiverError, StorageError

__all__ = ["ServedNode", "machine_boot"]

_SYNC_SECONDS: Final = 5.0
_BOOT: Final = "/proc/sys/kernel/random/boot_id"
_BOOT_BYTES: Final = 16


def machine_boot() -> bytes:
    """Name the run of this machine: another one says that its power was gone. Zeros: unknown."""
    try:
        text = read_foreign(foreign_path(_BOOT), bytes_max=100).decode("ascii", "replace")
    except StorageError:
        return bytes(_BOOT_BYTES)
    try:
        found = bytes.fromhex(text.strip().replace("-", ""))
    except ValueError:
        return bytes(_BOOT_BYTES)
    return found if len(found) == _BOOT_BYTES else bytes(_BOOT_BYTES)


class ServedNode:
    """Serves copies of blocks until it is closed. To be made after a fork, not before."""

    def __init__(
        self,
        disk: Disk,
        metadata: Metadata,
        name: str,
        *,
        listen: str,
        room: Callable[[], tuple[int, int]],
        clock: Clock,
        host: str = "",
        advertise: str = "",
        options: WireOptions | None = None,
        audit: AuditRules | None = None,
        scrub: ScrubRules | None = None,
        capacity: int = 0,
    ) -> None:
        """Take the folder and the address; ``start`` lets others know.

        ``room`` gives the free and all bytes of the disk. ``host`` is what fails as one with other
        nodes, and ``advertise`` where others reach it, if that is not where it listens.
        ``capacity`` is how many bytes its copies may take; 0: as many as the disk has.
        """
        check_node_name(name)
        if advertise:
            parse_address(advertise)
        self._name, self._options = name, options
        self._metadata, self._clock = metadata, clock
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self.faults: list[QuiverError] = []
        """What could not be synced with the records, as of the last time."""
        self.members = Members(metadata, clock=clock, options=options)
        self._copies = copies = Copies(disk, CopyRules(name, boot=machine_boot()))
        with ExitStack() as undone:
            undone.callback(copies.close)
            self._generation = Generation(disk)
            workers = ThreadWorkers()
            self.node = LocalNode(
                name, copies, peers=self.members, workers=workers, room=room, capacity=capacity
            )
            self.node.state = NodeState.INITIALIZING
            self._server = Server(
                self.node, listen, options=options, metadata=metadata, clock=clock
            )
            undone.callback(self._server.close)
            self.members.add_own(self.node)
            self._registration = Registration(
                metadata,
                name,
                address=advertise or self._server.address,
                host=host,
                room=self.node.room,
                clock=clock,
                rise=self._generation.rise,
            )
            self.scrubbing = Scrubbing(self.node, scrub or ScrubRules())
            self.auditing = Auditing(
                self.node,
                metadata,
                self.members,
                is_fed=self._server.is_fed,
                left=self._leave,
                clock=clock,
                rules=audit or AuditRules(),
            )
            undone.pop_all()

    @property
    def address(self) -> str:
        """Where it listens."""
        return self._server.address

    def start(self) -> None:
        """Say that it is there, do what the records say, and serve.

        Raises what metadata raise, and LockedError if another node of this name answers: two would
        give two answers to one fence.
        """
        self._check_alone()
        self._check_folder()
        self._enter(NodeState.INITIALIZING)
        self._registration.start()
        self._enter(NodeState.SYNCING)
        self.sync()
        self._enter(NodeState.SERVING)
        thread = threading.Thread(target=self._run, name="quiver-sync", daemon=True)
        thread.start()
        self._thread = thread
        self.auditing.start()
        self.scrubbing.start()

    def sync(self) -> None:
        """Do what the records say of its blocks; again each five seconds while it serves."""
        self.faults = sync_with_records(
            self.node, self._metadata, self._clock, is_over=self._over.is_set
        )

    def drain(self, *, seconds: float = 2.0) -> None:
        """Take no new blocks, and have open ones sealed while this node can answer for its copies.

        Waits so long for that if there are streams: who writes them seals, and goes on elsewhere.
        """
        if self.node.state is not NodeState.DRAINING:
            with suppress(QuiverError):  # Streams are told also while the metadata are away.
                self._enter(NodeState.DRAINING)
        if self._server.drain():
            self._over.wait(seconds)

    def close(self, *, seconds: float = 2.0) -> None:
        """Say that it is offline, tell all streams, and let go of the files."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        self.auditing.stop()
        self.scrubbing.stop()
        self._server.close(seconds=seconds)
        self.node.close()
        with suppress(QuiverError):  # Others find out in a few seconds.
            self._registration.stop()

    def __enter__(self) -> Self:
        """Give itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def _leave(self) -> None:
        """Take no new blocks; others fetch what is here, and then it may be stopped."""
        if self.node.state is NodeState.SERVING:
            self.drain(seconds=0)

    def _check_alone(self) -> None:
        address = self._registration.rival()
        if not address:
            return
        peer = RemotePeer(self._name, lambda: address, options=self._options)
        with suppress(QuiverError):  # It was there, and is no more.
            if peer.status().name == self._name:
                self.faults = [_not_alone(self._name, address)]
        peer.close()
        if self.faults:
            raise self.faults[0]

    def _check_folder(self) -> None:
        """Take no log for whole that was put back as it was some time ago."""
        remembered = self._registration.remembered()
        if self._generation.is_behind(remembered):
            self._copies.distrust(
                f"the folder of {self._name} is older ({self._generation.number}) than what others "
                f"remember of it ({remembered}), so this log may lack what was acknowledged; if it "
                "lacks nothing, stop the node and let the file end in .log again"
            )

    def _enter(self, state: NodeState) -> None:
        self.node.state = state
        self._registration.state = state
        self._registration.beat()

    def _run(self) -> None:
        while not self._over.wait(_SYNC_SECONDS):
            try:
                self.sync()
            except Exception as error:  # noqa: BLE001 Else it never hears that its name is taken.
                self.faults = [as_fault(error, "an upkeep", node=self._name)]
            if isinstance(fault := self._registration.fault, LockedError):
                self.node.state = NodeState.DRAINING  # The name is another's now.
                self._server.drain()
                self.faults.append(fault)


def _not_alone(name: str, address: str) -> LockedError:
    return LockedError(
        f"another node of the name {name} serves at {address}",
        hint="give each node a name of its own, and copy no folder of a node",
    )
