"""``quiver upsert``: keyed commands of a slot become a collection, each row once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import click

from quiver.cli.exits import DAMAGED, INTERRUPTED, OK
from quiver.cli.opening import config_options, settings
from quiver.cli.output import Output, count
from quiver.cli.program import COUNT_MAX, verb
from quiver.cli.queues.desk import open_place, store_options
from quiver.cli.scraping import check_endpoint, folder_scraped, metrics_option
from quiver.cli.signals import stopped_by_signals
from quiver.units import SECOND, format_bytes

if TYPE_CHECKING:
    import pyarrow as pa

    from quiver.clock import Clock
    from quiver.upsert.feeding import Appended, FeedOptions, FeedTally

__all__ = ["upsert"]

_DIGITS: Final = 8
_SLOT_MAX: Final = 64


@verb(
    "upsert",
    examples=(
        ("quiver upsert store --slot users --key id --into users", "what is finished by now"),
        ("quiver upsert store --slot users --key id --into users --follow", "and what comes"),
        ("quiver upsert store --slot s --key a,b --into s3://bucket/s --order-by at", ""),
        ("quiver upsert store --slot s --key a --into s --delete-when \"op = 'd'\"", ""),
    ),
)
@click.argument("folder", metavar="DIR")
@click.option("--slot", required=True, metavar="NAME", help="The slot whose rows are commands.")
@click.option("--key", required=True, metavar="K[,K2]", help="Columns of the key.")
@click.option("--into", required=True, metavar="PATH|URL", help="The collection, made if needed.")
@click.option("--value", metavar="V[,V2]", help="Columns of the value. Default: all that are left.")
@click.option(
    "--order-by",
    metavar="C[,C2]",
    help="Of commands for a key in one epoch the greatest by these counts. Default: the last.",
)
@click.option(
    "--delete-when",
    metavar="EXPR",
    help="A column of booleans, or a condition, as \"op = 'd'\". "
    "Default: where all columns of the value are null.",
)
@click.option(
    "--buckets",
    type=click.IntRange(1, 1 << 16),
    metavar="N",
    help="Among how many files keys are spread, of a collection that is made.  [default: 16]",
)
@click.option(
    "--history",
    type=click.IntRange(1, COUNT_MAX),
    default=100,
    show_default=True,
    metavar="N",
    help="Epochs back from the newest as of which the collection can be read.",
)
@click.option(
    "--subscriber",
    metavar="NAME",
    help="Who acks; registered if it is new. Default: one of the slot and the collection.",
)
@click.option("--follow", is_flag=True, help="Go on with what comes, until SIGINT or SIGTERM.")
@click.option(
    "--rows",
    type=click.IntRange(1, COUNT_MAX),
    default=1_000_000,
    show_default=True,
    metavar="N",
    help="Rows of an epoch at most.",
)
@click.option(
    "--size", default="64MiB", show_default=True, metavar="SIZE", help="Arrow bytes likewise."
)
@click.option(
    "--every",
    default="1s",
    show_default=True,
    metavar="TIME",
    help="With --follow: how long rows wait for others to share their epoch.",
)
@click.option(
    "--misfit",
    type=click.Choice(["fail", "error"]),
    default="fail",
    show_default=True,
    help="What becomes of values that no common type holds: the end, or error rows.",
)
@click.option(
    "--damaged",
    type=click.Choice(["block", "skip"]),
    default="block",
    show_default=True,
    help="What becomes of segments that cannot be opened: the end before them, or left behind.",
)
@click.option(
    "--acked",
    type=click.Choice(["block", "skip"]),
    default="block",
    show_default=True,
    help="What becomes of rows that the subscriber acked, and the collection has not: the end "
    "before them, or left behind.",
)
@store_options
@metrics_option
@config_options
def upsert(
    output: Output,
    *,
    folder: str,
    into: str,
    subscriber: str | None,
    follow: bool,
    options: tuple[str, ...],
    metrics: str | None,
    **given: Any,  # noqa: ANN401
) -> int:
    """Make a collection of keyed commands in a slot, each row once.

    A row says that its key has this value from now on, or, where it is a deletion, none. Rows are
    taken by a subscriber in a process of its own, beside whoever writes the store, or while nobody
    does, and gathered into epochs. Each epoch is let into the collection by one change of its
    manifest, with the place up to which each core was read, and acked behind it: so each row is in
    once, whatever way this ends and is begun again, by whatever subscriber. Rows of one core come
    in their order; between cores there is none. Bundles that are only in the log wait: where
    nobody writes, quiver finalize makes a segment of them.

    The collection is a folder, or s3://BUCKET/PATH, az://CONTAINER/PATH, gs://BUCKET/PATH, with
    credentials from the environment. One process at a time writes it: whoever comes later fences
    the earlier one. Read it with quiver view, or with Spark as quiver-view.

    Rows whose key has a null become error rows, for a reader to see; a row for a key that is good
    takes its error away.
    """
    import quiver
    from quiver.cli.inspect import open_folder
    from quiver.clock import SystemClock
    from quiver.consumer import is_known
    from quiver.manifest import StoreManifest
    from quiver.ship.objects import probe
    from quiver.subscriber import check_name
    from quiver.upsert.feeding import Feeder

    check_endpoint(metrics)
    how = _feed_options(**given)
    target = open_place(into, options)
    name = _name_of(how.slot, target.place) if subscriber is None else subscriber
    check_name(name)
    clock = SystemClock()
    with closing(open_folder(folder)) as disk:
        StoreManifest.read(disk).slots[how.slot]
        was_known = is_known(disk, name)
    told = _Told(output, clock)
    probe(target)
    config = settings(output).config
    with (
        quiver.subscribe(folder, name, slots=[how.slot], config=config) as consumer,
        folder_scraped(output, folder, metrics),
    ):
        has_acked = was_known and any(map(any, consumer.positions().values()))
        schema = _schema_of(folder, how.slot)
        feeder = Feeder(consumer, target, options=how, watch=told.hear, schema=schema)
        with stopped_by_signals(feeder.stop):
            tally = feeder.run(follow=follow)
        is_paused = consumer.is_paused
    told.end(tally)
    if has_acked and tally.is_begun:
        output.warn(
            f"{name} is no new subscriber, and the collection had nothing of this store: what it "
            "acked before is not in it"
        )
    if is_paused:
        output.warn(f"{name} is paused, so nothing was taken: quiver subscriber resume")
    if tally.is_held_up:
        output.warn(
            "bundles are left: they wait for an earlier one, which is to be tried again later"
        )
    if tally.is_cut_short and not follow:
        return INTERRUPTED
    return DAMAGED if tally.passed_count else OK


def _schema_of(folder: str, slot: str) -> pa.Schema | None:
    """Give all columns of a slot, those of rows that are only in the log as well."""
    from quiver.errors import QuiverError
    from quiver.scan import Scan

    try:
        return Scan(folder, slot=slot, include_open=True).schema
    except QuiverError:  # There are none yet, or who reads the rows says what is wrong.
        return None


def _feed_options(
    *,
    key: str,
    value: str | None,
    order_by: str | None,
    damaged: str,
    acked: str,
    **same: Any,  # noqa: ANN401
) -> FeedOptions:
    """Read what the command line says; the rest has the names of the options themselves."""
    from quiver.upsert.feeding import FeedOptions

    return FeedOptions(
        key=_names(key, "--key"),
        value=None if value is None else _names(value, "--value"),
        order_by=() if order_by is None else _names(order_by, "--order-by"),
        pass_damaged=damaged == "skip",
        pass_acked=acked == "skip",
        **same,
    )


def _name_of(slot: str, place: str) -> str:
    """Give the subscriber that is of this slot and this collection, and of no other."""
    from blake3 import blake3

    shown = "".join(char if char.isalnum() and char.isascii() else "-" for char in slot)
    digest = blake3(f"{slot}\0{place}".encode(errors="surrogatepass")).hexdigest()
    return f"upsert-{shown[:_SLOT_MAX]}-{digest[:_DIGITS]}"


def _names(text: str, option: str) -> Sequence[str]:
    """Read names of columns; raises wrong usage for an empty one."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise click.UsageError(
            f"{option}: a name of a column is empty in {text!r}", ctx=click.get_current_context()
        )
    return names


class _Told:
    """Tells of epochs as they are in the collection, and of all at the end."""

    def __init__(self, output: Output, clock: Clock) -> None:
        self._output, self._clock = output, clock
        self._begun_ns = clock.monotonic_ns()

    def hear(self, told: object) -> None:
        """Tell what a feeder tells."""
        from quiver.upsert.feeding import Appended, PassedBy, Trouble

        if isinstance(told, Appended):
            self._appended(told)
        elif isinstance(told, PassedBy):
            self._output.warn(f"left behind: {told.error}")
            if self._output.as_json:
                error = told.error
                self._output.line(
                    {"kind": "left_behind", "path": error.path, "reason": error.message}
                )
        elif isinstance(told, Trouble):
            self._output.warn(f"trying again: {told.error.message}")
        self._output.flush()

    def _appended(self, told: Appended) -> None:
        if self._output.as_json:
            self._output.line(
                {
                    "kind": "epoch",
                    "epoch": told.epoch,
                    "bundle_count": told.bundle_count,
                    "row_count": told.row_count,
                    "change_count": told.change_count,
                    "error_count": told.error_count,
                    "file_count": told.file_count,
                    "file_bytes": told.file_bytes,
                }
            )
            return
        what = f"{count(told.row_count, 'row')} of {count(told.bundle_count, 'bundle')}"
        self._output.text(
            f"epoch {told.epoch:,}: {what}, {count(told.change_count, 'change')}, "
            f"{format_bytes(told.file_bytes)} in {count(told.file_count, 'file')}"
        )

    def end(self, tally: FeedTally) -> None:
        """Tell what was done."""
        seconds = max(self._clock.monotonic_ns() - self._begun_ns, 1) / SECOND
        rate = int(tally.row_count / seconds)
        if self._output.as_json:
            self._output.line(
                {
                    "kind": "summary",
                    "epoch_count": tally.epoch_count,
                    "bundle_count": tally.bundle_count,
                    "row_count": tally.row_count,
                    "change_count": tally.change_count,
                    "error_count": tally.error_count,
                    "file_bytes": tally.file_bytes,
                    "already_bundle_count": tally.repeated_count,
                    "left_behind_count": tally.passed_count,
                    "seconds": round(seconds, 3),
                    "rows_per_second": rate,
                }
            )
            return
        text = f"{count(tally.row_count, 'row')} of {count(tally.bundle_count, 'bundle')} in "
        text += f"{count(tally.epoch_count, 'epoch')}, {count(tally.change_count, 'change')}"
        if tally.epoch_count:
            text += f", {rate:,} rows/s"
        if tally.error_count:
            text += f"; {count(tally.error_count, 'row')} became errors"
        if tally.repeated_count:
            text += f"; {count(tally.repeated_count, 'bundle')} the collection had already"
        self._output.text(text)
