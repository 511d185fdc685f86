"""``quiver restore``: what was shipped to a queue becomes segments of a store, each once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

import click

from quiver.cli.exits import DAMAGED, INTERRUPTED, OK
from quiver.cli.opening import config_options, settings
from quiver.cli.output import Output, count
from quiver.cli.program import verb
from quiver.cli.queues.desk import open_queue, store_options
from quiver.cli.signals import stopped_by_signals
from quiver.errors import MissingError
from quiver.units import SECOND, format_bytes

if TYPE_CHECKING:
    from quiver.clock import Clock
    from quiver.ship.shipper import OnDamage, Restored, RestoreTally

__all__ = ["restore"]


@verb(
    "restore",
    examples=(
        ("quiver restore s3://bucket/queue store", "what waits in the queue, which stays"),
        ("quiver restore s3://bucket/queue store --consume", "and take it out of the queue"),
        ("quiver restore /mnt/share/queue store --damaged skip", "go on behind what is damaged"),
    ),
)
@click.argument("url", metavar="URL")
@click.argument("folder", metavar="DIR")
@click.option(
    "--consume",
    is_flag=True,
    help="Take over as the queue's consumer, and dequeue what is in the store.",
)
@click.option(
    "--damaged",
    type=click.Choice(["block", "skip"]),
    default="block",
    show_default=True,
    help="What becomes of damaged and missing objects: the end, or left out.",
)
@store_options
@config_options
def restore(
    output: Output,
    *,
    url: str,
    folder: str,
    consume: bool,
    damaged: OnDamage,
    options: tuple[str, ...],
) -> int:
    """Make segments of a store again of what was shipped to a queue.

    Takes what waits in the queue now. A store is made in DIR if there is none, with the slots of
    the first segment; another slot table is refused. Segments that the store has had from the same
    core are passed over, however they come again: each is in once, whatever way this ends and is
    begun again. Bundles get new numbers, and the time of now as their ingestion time.

    The queue stays as it is, and whoever consumes it is not disturbed. With --consume whoever does
    is fenced, and what is durable in the store leaves the queue.

    What is damaged or missing ends it, behind all that is sound. With --damaged skip it is left out
    and the exit code is 9; what leaves the queue that way is kept there as a dead letter.
    """
    from quiver.clock import SystemClock
    from quiver.disk import LocalDisk
    from quiver.ship.shipper import RestoreOptions, Restorer

    config = settings(output).config
    clock = SystemClock()
    queue = open_queue(url, options, probed=consume)
    if not queue.read().next_sequence:
        raise MissingError(
            f"there is no queue in {queue.place}, or nothing was ever put into it",
            path=queue.place,
            hint="quiver ship makes one; is the address right?",
        )
    told = _Told(output, clock)
    with closing(LocalDisk(folder, create=True)) as disk:
        restorer = Restorer(
            disk,
            queue,
            options=RestoreOptions(consume=consume, damaged=damaged),
            config=config,
            watch=told.hear,
        )
        with (
            stopped_by_signals(restorer.stop),
            output.meter("restoring", rate=True) as told.show,
        ):
            tally = restorer.run()
    told.end(tally)
    if tally.is_cut_short:
        return INTERRUPTED
    return DAMAGED if tally.damaged_batches else OK


class _Told:
    """Tells of commits as they are durable, and of all at the end."""

    def __init__(self, output: Output, clock: Clock) -> None:
        self._output, self._clock = output, clock
        self._begun_ns = clock.monotonic_ns()
        self.show: Callable[[int, int], object] = lambda _done, _total: None

    def hear(self, told: object) -> None:
        """Tell what a restorer tells."""
        from quiver.ship.shipper import Arriving, Passed, Restored

        if isinstance(told, Arriving):
            self.show(told.done_bytes, told.batch_bytes)
            return
        if isinstance(told, Restored):
            self._restored(told)
        elif isinstance(told, Passed):
            self._output.warn(f"left out: entry {told.sequence}, {told.location}: {told.reason}")
            if self._output.as_json:
                self._output.line(
                    {
                        "kind": "left_out",
                        "sequence": told.sequence,
                        "location": told.location,
                        "reason": told.reason,
                    }
                )
        self._output.flush()

    def _restored(self, told: Restored) -> None:
        if self._output.as_json:
            self._output.line(
                {
                    "kind": "commit",
                    "store_id": told.store_id,
                    "source_core": told.core,
                    "source_segment_seq": told.segment_seq,
                    "core": told.into_core,
                    "segment_count": told.segment_count,
                    "bundle_count": told.bundle_count,
                    "row_count": told.row_count,
                    "file_bytes": told.file_bytes,
                }
            )
            return
        what = f"{count(told.bundle_count, 'bundle')} in {count(told.segment_count, 'segment')}"
        source = f"store {told.store_id}, core {told.core}, up to segment {told.segment_seq}"
        self._output.text(f"{source}: {what}, {format_bytes(told.file_bytes)}")

    def end(self, tally: RestoreTally) -> None:
        """Tell what was done."""
        seconds = max(self._clock.monotonic_ns() - self._begun_ns, 1) / SECOND
        if self._output.as_json:
            self._output.line(
                {
                    "kind": "summary",
                    "segment_count": tally.segment_count,
                    "bundle_count": tally.bundle_count,
                    "row_count": tally.row_count,
                    "file_bytes": tally.file_bytes,
                    "repeated_segment_count": tally.repeated_segments,
                    "foreign_call_count": tally.foreign_calls,
                    "damaged_count": tally.damaged_batches,
                    "dequeued_meanwhile_count": tally.dequeued_batches,
                    "dequeued_entry_count": tally.dequeued_entries,
                    "seconds": round(seconds, 3),
                    "file_bytes_per_second": int(tally.file_bytes / seconds),
                }
            )
            return
        text = f"{count(tally.bundle_count, 'bundle')} in {count(tally.segment_count, 'segment')}"
        text += f", {format_bytes(tally.file_bytes)}"
        if tally.segment_count:
            text += f", {format_bytes(int(tally.file_bytes / seconds))}/s"
        for number, noun, what in (
            (tally.repeated_segments, "segment", "the store had already"),
            (tally.foreign_calls, "call", "of others passed over"),
            (tally.damaged_batches, "damaged part", "left out"),
            (tally.dequeued_batches, "object", "dequeued meanwhile"),
        ):
            if number:
                text += f"; {count(number, noun)} {what}"
        if tally.dequeued_entries:
            text += f"; {tally.dequeued_entries:,} of the queue dequeued"
        self._output.text(text)
