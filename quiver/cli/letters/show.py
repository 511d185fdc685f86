"""``quiver dead-letters show``: one dead letter, why it is one, and what is in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from quiver.cli.output import Output
from quiver.cli.program import verb
from quiver.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["show"]


@verb(
    "show",
    examples=(
        ("quiver dead-letters show store 0/1/42.7+1", "why, and which slots it has"),
        ("quiver dead-letters show store 0/1/42.7+1 --slot events", "its rows as JSON"),
        ("quiver dead-letters show store 0/1/42.7+1 --otlp", "telemetry as OTLP in JSON"),
    ),
)
@click.argument("folder", metavar="DIR")
@click.argument("letter", metavar="LETTER")
@click.option("--slot", metavar="NAME", help="Write the rows of this slot, a line of JSON each.")
@click.option(
    "--otlp", "as_otlp", is_flag=True, help="Write its telemetry, a line of JSON a request."
)
def show(output: Output, *, folder: str, letter: str, slot: str | None, as_otlp: bool) -> None:
    """Show one dead letter, or what is in it.

    Which it is and why, and of each bundle the slots and how many rows they have. Takes no lock and
    changes nothing.
    """
    from quiver.cli.formats import write_rows
    from quiver.cli.inspect import open_folder
    from quiver.cli.letters.desk import chosen, letter_fields, read_letters

    if slot is not None and as_otlp:
        raise InputError("--slot and --otlp are two ways to see it", hint="give one of them")
    found = list(read_letters(output, folder))
    (one,) = chosen([each for _, each in found], [letter])
    owner = next(owner for owner, each in found if each is one)
    with closing(open_folder(folder)) as disk:
        bundles = _bundles(disk, one.path)
        if slot is None and not as_otlp:
            _report(output, letter_fields(owner, one), list(bundles))
            return
        output.flush()
        for _, bundle in bundles:
            if as_otlp:
                for line in _otlp(bundle):
                    output.lines(line)
            elif slot is not None and slot in bundle:
                write_rows("ndjson", [bundle[slot]], bundle[slot].schema)


def _bundles(disk: Any, path: str) -> Iterator[tuple[int, Mapping[str, pa.RecordBatch]]]:  # noqa: ANN401
    """Go through the bundles of a letter, each with its number in the log."""
    from quiver.manifest import StoreManifest
    from quiver.segment import SegmentReader

    with SegmentReader.open(disk, path) as reader:
        slots = reader.slots or StoreManifest.read(disk).slots
        for index in range(reader.bundle_count):
            batches = reader.bundle(index)
            seq = reader.bundle_entry(index).wal_seq or 0
            yield seq, {slots[number].name: batch for number, batch in batches.items()}


def _report(
    output: Output, fields: dict[str, Any], bundles: list[tuple[int, Mapping[str, pa.RecordBatch]]]
) -> None:
    parts = [
        {"wal_seq": seq, "slot": name, "row_count": batch.num_rows}
        for seq, bundle in bundles
        for name, batch in bundle.items()
    ]
    if output.as_json:
        output.document({**fields, "payloads": parts})
        return
    names = "letter", "subscriber", "at_time", "attempts", "outcome", "reason", "path"
    output.facts((name.removesuffix("_time"), str(fields[name] or "-")) for name in names)
    rows = [[part["wal_seq"], part["slot"], part["row_count"]] for part in parts]
    output.table("payloads", ["bundle", "slot", "rows"], rows, empty="none")


def _otlp(bundle: Mapping[str, pa.RecordBatch]) -> Iterator[str]:
    from quiver.bundle import RecordBundle
    from quiver.otel.batch import of_bundle
    from quiver.otel.otlp import encode, to_json

    batch = of_bundle(RecordBundle(bundle))
    yield to_json(batch.signal, encode(batch))
