"""``quiver node``: a node of a chain, until it is told to end."""

from __future__ import annotations

import shutil
import socket
import threading
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from quiver.cli.chains.desk import chain_options, open_place
from quiver.cli.exits import OK
from quiver.cli.output import Output, count
from quiver.cli.program import verb
from quiver.cli.signals import setting, stopped_by_signals, wait_for
from quiver.errors import InputError, StorageError
from quiver.units import SECOND, parse_bytes, parse_duration

if TYPE_CHECKING:
    from quiver.chain.serving import ServedNode
    from quiver.chain.wire import WireOptions

__all__ = ["node", "room_of"]

_KEPT_BYTES: Final = 64 << 20
"""Memory that streams had, and that is kept for what they bring next."""
_EVERYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104 To refuse them.


@verb(
    "node",
    examples=(
        ("quiver node --dir n1 --metadata meta --name n1", "one of several on one machine"),
        ("quiver node --dir n2 --metadata meta --name n2 --capacity 50GB", "with a limit"),
        ("quiver node --dir d --metadata etcd://e1:2379/q --name a", "they agree by etcd"),
        ("quiver node --dir d --metadata s3://b/q --name a --token-file t", "with a token"),
    ),
)
@click.option("--dir", "folder", required=True, metavar="DIR", help="Where its copies lie.")
@click.option("--name", required=True, metavar="N", help="Its name; nobody else has it, ever.")
@click.option(
    "--listen",
    default="127.0.0.1:0",
    show_default=True,
    metavar="HOST:PORT",
    help="Port 0 takes any.",
)
@click.option("--advertise", default="", metavar="HOST:PORT", help="Where others reach it.")
@click.option(
    "--host-label",
    default="",
    metavar="H",
    help="What fails as one: no two copies of a block lie on one. The machine's name, unless only "
    "it reaches the node; '-' for none.",
)
@click.option(
    "--capacity",
    default="0",
    metavar="SIZE",
    help="So much its copies may take; no new ones come from 85 percent on.  [default: the disk]",
)
@click.option(
    "--audit-every",
    default="5s",
    show_default=True,
    metavar="TIME",
    help="Between looks whether blocks want to be finished, copied or deleted; one node at a time "
    "does that for all.",
)
@click.option(
    "--orphan-after",
    default="30s",
    show_default=True,
    metavar="TIME",
    help="A block that nobody writes any more is sealed then.",
)
@click.option(
    "--scrub",
    "scrub_mb",
    default=8,
    show_default=True,
    metavar="MB",
    type=click.IntRange(0, 100_000),
    help="Megabytes a second of finished segments that are read again, to find what rots; 0: none.",
)
@chain_options
def node(
    output: Output,
    *,
    place: str,
    options: tuple[str, ...],
    folder: str,
    name: str,
    listen: str,
    advertise: str,
    host_label: str,
    capacity: str,
    audit_every: str,
    orphan_after: str,
    scrub_mb: int,
    wire: WireOptions,
) -> int:
    """Be a node of a chain: keep copies of blocks, serve readers.

    All nodes of a chain have the same metadata: a folder of one machine, a bucket, or etcd. The
    first line on stdout says where it listens, as soon as it serves.

    One of the nodes looks after all: sealed blocks become segments, copies of a node that is gone
    are made anew, what was purged is deleted. When it is gone another one does.

    SIGTERM and SIGINT drain: no new blocks come, streams are told that it ends, and their loaders
    go on elsewhere. Nothing that was acknowledged is lost, also by kill -9.

    Other machines reach it only with TLS. A node's certificate has the node's name among its names.
    """
    from quiver.addresses import is_loopback, parse_address
    from quiver.chain.polling import use_polling
    from quiver.chain.serving import AuditRules, ScrubRules, ServedNode
    from quiver.clock import SystemClock
    from quiver.disk import LocalDisk

    _keep_memory()
    use_polling()
    audit = AuditRules(
        every_seconds=parse_duration(audit_every, key="--audit-every") / SECOND,
        orphan_seconds=parse_duration(orphan_after, key="--orphan-after") / SECOND,
    )
    capacity_bytes = parse_bytes(capacity, key="--capacity")
    _check_reachable(listen, advertise, wire)
    is_alone = is_loopback(parse_address(listen)[0])
    host = host_label or ("-" if is_alone else socket.gethostname())
    disk = LocalDisk(folder, create=True)

    ending = threading.Event()
    with stopped_by_signals(setting(ending)):
        served = ServedNode(
            disk,
            open_place(place, options, create=True),
            name,
            listen=listen,
            advertise=advertise,
            host="" if host == "-" else host,
            room=partial(room_of, folder),
            clock=SystemClock(),
            options=wire,
            audit=audit,
            scrub=ScrubRules(bytes_per_second=scrub_mb * 1_000_000),
            capacity=capacity_bytes,
        )
        try:
            served.start()
            _told(output, served, name)
            wait_for(ending)
            served.drain()
        finally:
            served.close()
    output.say(f"{name} has ended")
    return OK


def _keep_memory() -> None:
    """Let messages come into memory that those before them had; Arrow's own is of the same kind."""
    import pyarrow as pa

    from quiver.disk import keep_memory

    keep_memory(_KEPT_BYTES)
    pa.set_memory_pool(pa.system_memory_pool())


def room_of(folder: str) -> tuple[int, int]:
    """Give the free and all bytes of the disk of a folder; raises StorageError."""
    try:
        found = shutil.disk_usage(folder)
    except OSError as error:  # As from a disk of the network: the next beat asks again.
        why = f"how full the disk of {folder} is cannot be told: {error.strerror}"
        raise StorageError(why, path=folder, errno=error.errno or 0) from error
    return found.free, found.total


def _check_reachable(listen: str, advertise: str, wire: WireOptions) -> None:
    """Raise InputError if others would be told to come to all addresses of this machine."""
    from quiver.addresses import parse_address

    if wire.tls is not None and not advertise and parse_address(listen)[0] in _EVERYWHERE:
        raise InputError(
            f"--listen {listen} is all addresses of this machine, and others need one",
            hint="give --advertise HOST:PORT",
        )


def _told(output: Output, served: ServedNode, name: str) -> None:
    held = served.node.status().holdings
    if output.as_json:
        fields = {"kind": "serving", "name": name, "address": served.address}
        output.line({**fields, "block_count": len(held)})
    else:
        output.text(f"{name} serves {count(len(held), 'block')} at {served.address}")
    for damaged in served.node.damaged():
        block = damaged.name
        output.warn(f"block {block.number} of {block.partition} is damaged: {damaged.why}")
    for fault in served.faults:
        output.warn(str(fault))
    output.flush()
