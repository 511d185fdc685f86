"""``quiver chain mirror``: partitions into a store of this machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from quiver.cli.chains.desk import chain_options, check_folder
from quiver.cli.opening import config_options, open_store, strict_option
from quiver.cli.output import Output, count, format_time
from quiver.cli.program import COUNT_MAX, verb
from quiver.cli.queues.desk import told_options
from quiver.cli.scraping import check_endpoint, metrics_option, scraped
from quiver.cli.signals import stopped_by_signals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quiver.chain.cluster import Cluster
    from quiver.chain.mirroring import Mirrored
    from quiver.chain.wire import WireOptions
    from quiver.engine import Store
    from quiver.slots import Slot

__all__ = ["mirror"]

_TOLD_MAX = 10


@verb(
    "mirror",
    examples=(
        ("quiver chain mirror store --metadata quiver://n1:7201,n2:7201", "all partitions, on"),
        ("quiver chain mirror store --metadata meta --partition core_0 --once", "what is there"),
        ("quiver chain mirror store --metadata meta --partition core_1 --core 1", "beside another"),
    ),
)
@click.argument("folder", metavar="DIR")
@click.option(
    "--partition",
    "partitions",
    multiple=True,
    metavar="NAME",
    help="One to read; repeatable. Without it all, new ones too.",
)
@click.option("--once", is_flag=True, help="End when all that is there now is read.")
@click.option(
    "--core", type=click.IntRange(0, COUNT_MAX), default=0, show_default=True, help="To write to."
)
@click.option(
    "--gap",
    type=click.Choice(["error", "tell"]),
    default="error",
    show_default=True,
    help="What becomes of bundles that are gone before they were read.",
)
@click.option(
    "--begin-anew",
    is_flag=True,
    help="Go on even if it was lost how far a partition was read; bundles may come twice.",
)
@strict_option
@metrics_option
@config_options
@chain_options
def mirror(
    output: Output,
    *,
    folder: str,
    place: str,
    options: tuple[str, ...],
    partitions: tuple[str, ...],
    once: bool,
    core: int,
    gap: str,
    begin_anew: bool,
    strict: bool,
    metrics: str | None,
    wire: WireOptions,
) -> None:
    """Read partitions that are kept by nodes into a store, made if it is not there.

    Bundles come whole, in order of time, and keep their times. How far each partition was read is
    in the log with the bundle, so that a later run goes on exactly behind the last durable one,
    however this one ended. SIGINT and SIGTERM end it well. Whoever reads a store of this machine
    (subscribers, Spark, export, ship) reads this one.

    --metadata may also name nodes, quiver://HOST:PORT,HOST:PORT, of which any one has to be up.
    """
    from quiver.chain.cluster import connect
    from quiver.chain.mirroring import Mirror

    check_endpoint(metrics)
    check_folder(place)
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # What fails is told by us, once.
    output.overrides["segment.time"] = "caller"
    with connect(place, wire=wire, options=told_options(options), environ=os.environ) as cluster:
        slots = _new_slots(cluster, folder, partitions)
        store = open_store(output, folder, strict=strict, core=core, slots=slots)
        with store, scraped(output, store, metrics):
            for error in store.recovery.damage:
                output.warn(f"quiver: set aside while opening: {error}")
            with (
                Mirror(store, cluster, partitions, gap=gap, begin_anew=begin_anew) as reader,
                stopped_by_signals(reader.stop),
                output.progress("reading", None, unit="rows") as advance,
            ):
                found = reader.run(once=once, watch=advance)
            segments = store.metrics().get(("quiver.segment.finalized_segments", ""), 0)
    _print(output, store, found, created=slots is not None, segment_count=segments)


def _new_slots(cluster: Cluster, folder: str, partitions: Sequence[str]) -> list[Slot] | None:
    """Give the slots of a store that has to be made: those of all partitions together."""
    from quiver.disk import LocalDisk
    from quiver.errors import InputError, MissingError
    from quiver.manifest import MANIFEST_NAME
    from quiver.slots import SlotTable

    try:
        disk = LocalDisk(folder)
    except MissingError:
        pass
    else:
        try:
            if disk.stat(MANIFEST_NAME) is not None:
                return None
        finally:
            disk.close()
    tables = [cluster.slots(name) for name in partitions or cluster.partitions()]
    found = {slot for table in tables for slot in table or ()}
    if not found:
        raise InputError(
            "no partition says yet which slots it has",
            hint="begin once something was loaded, or make the store before",
        )
    return list(SlotTable(found))


def _print(
    output: Output, store: Store, found: Mirrored, *, created: bool, segment_count: int
) -> None:
    for partition, last, following in found.gaps[:_TOLD_MAX]:
        output.warn(f"quiver: {partition}: bundle {following} came behind {last}")
    if len(found.gaps) > _TOLD_MAX:
        output.warn(f"quiver: and {len(found.gaps) - _TOLD_MAX:,} more")
    if output.as_json:
        places: list[dict[str, Any]] = [
            {"partition": name, "time": format_time(at.time_ns), "last_seq": at.wal_seq}
            for name, at in sorted(found.positions.items())
        ]
        output.document(
            {
                "path": store.path,
                "created": created,
                "bundle_count": found.bundle_count,
                "row_count": found.row_count,
                "late_count": found.late_count,
                "gap_count": len(found.gaps),
                "wal_seq_first": found.wal_seq_first,
                "wal_seq_last": found.wal_seq_last,
                "segment_count": segment_count,
                "partitions": places,
            }
        )
        return
    made = " (new)" if created else ""
    read = f"{count(found.row_count, 'row')} in {count(found.bundle_count, 'bundle')}"
    late = found.late_count
    read += f", {count(late, 'bundle')} with a later time than their own" if late else ""
    output.facts(
        [
            ("read", f"{read}, of {count(len(found.positions), 'partition')}"),
            ("store", f"{count(segment_count, 'segment')} in {store.path}{made}"),
        ]
    )
