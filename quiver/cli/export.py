"""``quiver export``: a ready subscriber that writes bundles to files, each once."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing, nullcontext
from typing import TYPE_CHECKING, Any, Final

import click

from quiver.cli.output import Output, count
from quiver.cli.program import COUNT_MAX, verb
from quiver.cli.scraping import check_endpoint, folder_scraped, metrics_option
from quiver.cli.signals import stopped_by_signals
from quiver.units import format_bytes, parse_bytes, parse_duration

if TYPE_CHECKING:
    from quiver.cli.taking import Taking
    from quiver.export import ExportedFile, Tally
    from quiver.manifest import StoreManifest

__all__ = ["export"]

_FORMATS: Final = ("parquet", "arrow", "csv", "ndjson")


@verb(
    "export",
    examples=(
        (
            "quiver export store --slot logs --out lake --subscriber lake",
            "to Parquet, what is there",
        ),
        ("quiver export store --slot a --slot b --out o --subscriber s --follow", "and what comes"),
        ("quiver export store --slot a --to ndjson --out o --subscriber s", "lines of JSON"),
    ),
)
@click.argument("folder", metavar="DIR")
@click.option(
    "--slot", "slots", multiple=True, required=True, metavar="NAME", help="A slot. Repeatable."
)
@click.option(
    "--to",
    "kind",
    type=click.Choice(_FORMATS),
    default=_FORMATS[0],
    show_default=True,
    help="Format of the files.",
)
@click.option("--out", required=True, metavar="PATH", help="Folder of the files, made if needed.")
@click.option(
    "--subscriber", required=True, metavar="NAME", help="Who acks; registered if it is new."
)
@click.option(
    "--rows",
    type=click.IntRange(1, COUNT_MAX),
    default=1_000_000,
    show_default=True,
    metavar="N",
    help="Rows of a file at most.",
)
@click.option(
    "--size",
    default="128MB",
    show_default=True,
    metavar="SIZE",
    help="Arrow bytes of a file at most; files are smaller by what compression saves.",
)
@click.option("--follow", is_flag=True, help="Go on with what comes, until SIGINT or SIGTERM.")
@click.option(
    "--every",
    default="5s",
    show_default=True,
    metavar="TIME",
    help="With --follow: how long a bundle waits for others to share its file.",
)
@metrics_option
def export(
    output: Output,
    *,
    folder: str,
    slots: tuple[str, ...],
    kind: str,
    out: str,
    subscriber: str,
    rows: int,
    size: str,
    follow: bool,
    every: str,
    metrics: str | None,
) -> None:
    """Write bundles to files as a subscriber, each once.

    Slots of all bundles go to files in PATH, then the bundles are acked, as by any subscriber in a
    process of its own: beside whoever writes the store, or while nobody does. Bundles that are only
    in the log are not seen; where nobody writes, quiver finalize makes a segment of them.

    Each row is in one file, whatever way this ends and is begun again. A file is named by slot,
    core, and the first and the last bundle that it has, as segment.bundle:

        logs-0-0000000000000003.000017-0000000000000005.000002.parquet

    By these names the next run knows what is written, if this one dies before all is acked: take
    files away only after a run that ended well, or they are written again. Bundles are never
    divided: one that is larger than --rows or --size is a file of its own. A change of columns
    begins another file. A segment that is damaged is passed over, and told at the end by the exit
    code; its bundles come once the store was opened or repaired.

    PATH belongs to one subscriber of one store. Columns that the format cannot hold end the run,
    and their bundle stays where it is.
    """
    from quiver.cli.inspect import open_folder
    from quiver.cli.taking import taking
    from quiver.disk import LocalDisk
    from quiver.export import Exporter, ExportFolder
    from quiver.manifest import StoreManifest

    parse_bytes(size, key="--size")
    parse_duration(every, key="--every")
    check_endpoint(metrics)
    with closing(open_folder(folder)) as store:
        manifest = StoreManifest.read(store)
        _check(manifest, slots, subscriber)
        disk = LocalDisk(out, create=True)
        try:
            owner = {"store_id": manifest.store_id, "subscriber": subscriber}
            with (
                ExportFolder.open(disk, **owner) as files,
                taking(store, folder, subscriber) as source,
                folder_scraped(output, folder, metrics),
            ):
                told = _Told(output, source)
                limits: dict[str, Any] = {"rows": rows, "size": size}
                exporter = Exporter(source, files, slots=slots, to=kind, watch=told.file, **limits)
                with stopped_by_signals(exporter.stop) if follow else nullcontext():
                    exporter.run(follow=follow, every=every)
                told.end(exporter.tally)
                source.check_whole()
        finally:
            disk.close()


def _check(manifest: StoreManifest, slots: Iterable[str], subscriber: str) -> None:
    """Raise InputError that lists the known slots, or SubscriberError for an impossible name."""
    from quiver.subscriber import check_name

    for name in slots:
        manifest.slots[name]
    check_name(subscriber)


class _Told:
    """Tells of files as they are written and their bundles acked, and of all at the end."""

    def __init__(self, output: Output, source: Taking) -> None:
        self._output, self._source = output, source

    def file(self, file: ExportedFile) -> None:
        """Tell of one file, whose acks survive a power cut first."""
        self._source.commit()
        if not self._output.as_json:
            rows = count(file.row_count, "row")
            self._output.text(f"{file.path}: {rows}, {format_bytes(file.file_bytes)}")
        else:
            self._output.line({"kind": "file", **_fields(file)})
        self._output.flush()

    def end(self, tally: Tally) -> None:
        """Tell what was done."""
        if self._output.as_json:
            self._output.line(
                {
                    "kind": "summary",
                    "file_count": tally.file_count,
                    "row_count": tally.row_count,
                    "file_bytes": tally.file_bytes,
                    "bundle_count": tally.bundle_count,
                    "repeated_count": tally.repeated_count,
                }
            )
            return
        text = f"{count(tally.row_count, 'row')} in {count(tally.file_count, 'file')}"
        text += f", {count(tally.bundle_count, 'bundle')} acked"
        if tally.repeated_count:
            text += f", of which {tally.repeated_count:,} were in files already"
        self._output.text(text)


def _fields(file: ExportedFile) -> dict[str, Any]:
    (segment_first, bundle_first), (segment_last, bundle_last) = file.range.first, file.range.last
    return {
        "path": file.path,
        "slot": file.range.slot,
        "core": file.range.core,
        "segment_seq_first": segment_first,
        "bundle_index_first": bundle_first,
        "segment_seq_last": segment_last,
        "bundle_index_last": bundle_last,
        "bundle_count": file.bundle_count,
        "row_count": file.row_count,
        "file_bytes": file.file_bytes,
    }
