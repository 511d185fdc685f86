"""``quiver ship``: finished segments go into a queue in object storage, each once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import click

from quiver.cli.exits import DAMAGED, INTERRUPTED, OK
from quiver.cli.opening import config_options, settings
from quiver.cli.output import Output, count
from quiver.cli.program import verb
from quiver.cli.queues.desk import open_queue, store_options
from quiver.cli.scraping import check_endpoint, folder_scraped, metrics_option
from quiver.cli.signals import stopped_by_signals
from quiver.units import SECOND, format_bytes, parse_bytes

if TYPE_CHECKING:
    from quiver.clock import Clock
    from quiver.ship.batch import Compression
    from quiver.ship.shipper import OnDamage, Shipment, ShipOptions, Tally

__all__ = ["ship"]


@verb(
    "ship",
    examples=(
        ("quiver ship store s3://bucket/queue --subscriber ship", "what is finished by now"),
        ("quiver ship store s3://bucket/queue --subscriber ship --follow", "and what comes"),
        ("quiver ship store /mnt/share/queue --subscriber ship", "a queue in a folder"),
        ("quiver ship store s3://b/q --subscriber s --slot logs --compress zstd", "one slot"),
    ),
)
@click.argument("folder", metavar="DIR")
@click.argument("url", metavar="URL")
@click.option(
    "--subscriber", required=True, metavar="NAME", help="Who acks; registered if it is new."
)
@click.option("--follow", is_flag=True, help="Go on with what comes, until SIGINT or SIGTERM.")
@click.option("--slot", "slots", multiple=True, metavar="NAME", help="Only this slot. Repeatable.")
@click.option(
    "--damaged",
    type=click.Choice(["skip", "block"]),
    default="skip",
    show_default=True,
    help="What becomes of damaged bundles: left out for good and set aside, or the end.",
)
@click.option(
    "--size",
    default="64MiB",
    show_default=True,
    metavar="SIZE",
    help="Segments share an object up to this.",
)
@click.option(
    "--compress",
    type=click.Choice(["none", "zstd"]),
    default="none",
    show_default=True,
    help="How objects are compressed.",
)
@click.option(
    "--uploads",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    metavar="N",
    help="Objects on their way at a time.",
)
@store_options
@metrics_option
@config_options
def ship(
    output: Output,
    *,
    folder: str,
    url: str,
    subscriber: str,
    follow: bool,
    slots: tuple[str, ...],
    damaged: OnDamage,
    size: str,
    compress: Compression,
    uploads: int,
    options: tuple[str, ...],
    metrics: str | None,
) -> int:
    """Put finished segments into a queue in object storage, each once.

    Takes all cores of a store as a subscriber in a process of its own, beside whoever writes it, or
    while nobody does. Segments go as they are, many small ones in one object, and are acked once
    the queue has them, durably. Each is in the queue once, whatever way this ends and is begun
    again; many machines may ship to one queue. Bundles that are only in the log wait: where nobody
    writes, quiver finalize makes a segment of them.

    URL is s3://BUCKET/PATH, az://CONTAINER/PATH, gs://BUCKET/PATH or a folder. Credentials come
    from the environment, as the store's own tools have them.

    The queue remembers for each core up to which segment it has it. What it has is only acked; so a
    subscriber that is set back ships nothing again. Ship one choice of slots to a queue.

    Bundles that are damaged, or that a repair brings back when later ones are in the queue, are
    left out for good: the store keeps them as dead letters or in quarantine, and the exit code is
    9. With --damaged block it ends before them.
    """
    from quiver.clock import SystemClock
    from quiver.disk import LocalDisk
    from quiver.ship.shipper import ShipOptions, Shipper

    check_endpoint(metrics)
    how: ShipOptions = ShipOptions(
        slots=slots or None,
        damaged=damaged,
        batch_bytes=parse_bytes(size, key="--size"),
        compression=compress,
        uploads=uploads,
    )
    clock = SystemClock()
    with closing(LocalDisk(folder)) as disk:
        told = _Told(output, clock)
        config = settings(output).config
        queue = open_queue(url, options, probed=True)
        shipper = Shipper(disk, queue, subscriber, options=how, config=config, watch=told.hear)
        with (
            stopped_by_signals(shipper.stop),
            folder_scraped(output, folder, metrics),
            told.bar(follow=follow),
        ):
            tally = shipper.run(follow=follow)
    told.end(tally)
    if tally.is_paused:
        output.warn(f"{subscriber} is paused, so nothing was shipped: quiver subscriber resume")
    if tally.is_cut_short and not follow:
        return INTERRUPTED
    return DAMAGED if tally.rejected_bundles or tally.unreadable_segments else OK


class _Told:
    """Tells of objects as they are in the queue, and of all at the end."""

    def __init__(self, output: Output, clock: Clock) -> None:
        self._output, self._clock = output, clock
        self._begun_ns = clock.monotonic_ns()
        self._show: Callable[[int, int], object] = lambda _done, _total: None
        self._done = self._total = 0

    @contextmanager
    def bar(self, *, follow: bool) -> Iterator[None]:
        """Show how far it is, where a person can see it; of what has no end only how much."""
        if not follow:
            with self._output.meter("shipping", rate=True) as self._show:
                yield
            return
        with self._output.progress("shipping", None, unit="B", rate=True) as advance:
            shown = 0

            def show(done: int, _: int) -> None:
                nonlocal shown
                advance(done - shown)
                shown = done

            self._show = show
            yield

    def hear(self, told: object) -> None:
        """Tell what a shipper tells."""
        from quiver.ship.shipper import Ahead, LeftOut, Shipment, Trouble

        if isinstance(told, Ahead):
            self._total = told.file_bytes
            self._show(0, self._total)
        elif isinstance(told, Shipment):
            self._done += told.file_bytes
            self._show(self._done, max(self._done, self._total))
            self._shipment(told)
        elif isinstance(told, LeftOut):
            what = "all of it" if told.bundle_count is None else count(told.bundle_count, "bundle")
            place = f"core {told.core}, segment {told.segment_seq}"
            self._output.warn(f"left out: {what} of {place}: {told.reason}")
            if self._output.as_json:
                self._output.line(
                    {
                        "kind": "left_out",
                        "core": told.core,
                        "segment_seq": told.segment_seq,
                        "bundle_count": told.bundle_count,
                        "reason": told.reason,
                    }
                )
        elif isinstance(told, Trouble):
            self._output.warn(f"trying again: {told.error.message}")
        self._output.flush()

    def _shipment(self, told: Shipment) -> None:
        if self._output.as_json:
            self._output.line(
                {
                    "kind": "object",
                    "sequence": told.sequence,
                    "location": told.location,
                    "segment_count": told.segment_count,
                    "bundle_count": told.bundle_count,
                    "record_bytes": told.record_bytes,
                    "object_bytes": told.batch_bytes,
                }
            )
            return
        what = f"{count(told.bundle_count, 'bundle')} in {count(told.segment_count, 'segment')}"
        self._output.text(f"{told.location}: {what}, {format_bytes(told.batch_bytes)}")

    def end(self, tally: Tally) -> None:
        """Tell what was done."""
        seconds = max(self._clock.monotonic_ns() - self._begun_ns, 1) / SECOND
        rate = int(tally.record_bytes / seconds)
        if self._output.as_json:
            self._output.line(
                {
                    "kind": "summary",
                    "object_count": tally.batch_count,
                    "segment_count": tally.segment_count,
                    "bundle_count": tally.bundle_count,
                    "record_bytes": tally.record_bytes,
                    "object_bytes": tally.batch_bytes,
                    "already_bundle_count": tally.bundles_before,
                    "unwanted_bundle_count": tally.bundles_unwanted,
                    "rejected_bundle_count": tally.rejected_bundles,
                    "unreadable_segment_count": tally.unreadable_segments,
                    "seconds": round(seconds, 3),
                    "record_bytes_per_second": rate,
                }
            )
            return
        text = f"{count(tally.bundle_count, 'bundle')} in {count(tally.segment_count, 'segment')}"
        text += f" and {count(tally.batch_count, 'object')}, {format_bytes(tally.record_bytes)}"
        if tally.batch_count:
            text += f", {format_bytes(rate)}/s"
        for number, what in (
            (tally.bundles_before, "the queue had already"),
            (tally.bundles_unwanted, "without any of the slots"),
            (tally.rejected_bundles, "left out for good"),
        ):
            if number:
                text += f"; {count(number, 'bundle')} {what}"
        self._output.text(text)
