"""The other half of ``quiver ingest``: a source that is followed into a slot."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from quiver.cli.opening import open_store
from quiver.cli.output import Output, count
from quiver.cli.scraping import scraped
from quiver.cli.signals import stopped_by_signals
from quiver.errors import InputError, MissingError

if TYPE_CHECKING:
    from quiver.cli.connectors import SourceWord
    from quiver.engine import Store
    from quiver.source.feeder import Fed
    from quiver.source.parser import Parser
    from quiver.source.protocols import Connector

__all__ = ["feed"]

_DIGEST_BYTES: Final = 16
_TOLD_MAX: Final = 10


def feed(
    output: Output,
    folder: str,
    *,
    source: str,
    slots: tuple[str, ...],
    parser: Parser | None,
    dead_letters: str | None,
    once: bool,
    idle: str,
    begin_anew: bool,
    strict: bool,
    metrics: str | None,
) -> None:
    """Follow a source until it is told to end, or with ``once`` until it has nothing more."""
    from blake3 import blake3

    from quiver.cli.connectors import connector_of, parse_source
    from quiver.source.feeder import Feeder
    from quiver.units import parse_duration

    word = parse_source(source)
    parse_duration(idle, key="--idle")
    slot = _one(slots)
    if dead_letters == slot:
        raise InputError(f"rows and dead letters cannot both go to slot {slot!r}")
    if word.scheme == "quiver" and os.path.realpath(word.place) == os.path.realpath(folder):
        raise InputError(
            f"{folder} would be read into itself, for ever",
            hint="name another store to read, or another one to fill",
        )
    needed = [slot] if dead_letters is None else [slot, dead_letters]
    make = connector_of(word)  # What is wrong with it makes no store.
    store, created = _open(output, folder, needed, strict=strict)
    with store, scraped(output, store, metrics):
        for error in store.recovery.damage:
            output.warn(f"quiver: set aside while opening: {error}")
        digest = blake3(word.name.encode()).hexdigest(_DIGEST_BYTES)
        connector = make(os.path.join(store.path, "followers", digest))
        feeder = Feeder(
            store,
            connector,
            source=word.name,
            slot=slot,
            begin_anew=begin_anew,
            parser=parser,
            dead_letters=dead_letters,
        )
        try:
            with (
                stopped_by_signals(feeder.stop),
                output.progress("ingesting", None, unit="rows") as advance,
            ):
                fed = feeder.run(once=once, idle=idle, watch=advance)
        finally:
            feeder.close()
            _tell_files(output, connector)
        segments = store.metrics().get(("quiver.segment.finalized_segments", ""), 0)
    _print(output, store, word, fed=fed, created=created, segment_count=segments)


def _tell_files(output: Output, connector: Connector) -> None:
    """Say which files were not read, for a run that reads nothing of them looks like success."""
    from quiver.source.files import FilesConnector

    if isinstance(connector, FilesConnector):
        _tell(output, "left alone, for it is not whole yet", connector.waiting)
        _tell(output, "passed over, for it is gone", connector.passed)


def _tell(output: Output, what: str, paths: list[str]) -> None:
    for path in paths[:_TOLD_MAX]:
        output.warn(f"quiver: {what}: {path}")
    if len(paths) > _TOLD_MAX:
        output.warn(f"quiver: and {len(paths) - _TOLD_MAX:,} more")


def _one(slots: tuple[str, ...]) -> str:
    if len(slots) != 1 or "=" in slots[0] or not slots[0]:
        raise InputError("with --follow name one slot, without a file", hint="--slot events")
    return slots[0]


def _open(output: Output, folder: str, slots: list[str], *, strict: bool) -> tuple[Store, bool]:
    """Open the store, or make it with these slots; says whether it was made."""
    from quiver.disk import LocalDisk
    from quiver.manifest import MANIFEST_NAME, StoreManifest

    try:
        disk = LocalDisk(folder)
    except MissingError:
        return open_store(output, folder, strict=strict, slots=slots), True
    try:
        is_new = disk.stat(MANIFEST_NAME) is None
        if not is_new:
            known = StoreManifest.read(disk).slots
            for slot in slots:
                _ = known[slot]  # InputError that lists the known ones.
    finally:
        disk.close()
    return open_store(output, folder, strict=strict, slots=slots if is_new else None), is_new


def _print(
    output: Output, store: Store, word: SourceWord, *, fed: Fed, created: bool, segment_count: int
) -> None:
    splits: list[dict[str, Any]] = [
        {"split": split, "state": state} for split, state in sorted(fed.states.items())
    ]
    if output.as_json:
        output.document(
            {
                "path": store.path,
                "created": created,
                "source": word.name,
                "bundle_count": fed.bundle_count,
                "row_count": fed.row_count,
                "dead_letter_count": fed.dead_letter_count,
                "wal_seq_first": fed.wal_seq_first,
                "wal_seq_last": fed.wal_seq_last,
                "segment_count": segment_count,
                "splits": splits,
            }
        )
        return
    made = " (new)" if created else ""
    dead = fed.dead_letter_count
    read = f"{count(fed.row_count, 'row')} in {count(fed.bundle_count, 'bundle')}"
    read += f", and {count(dead, 'dead letter')}" if dead else ""
    output.facts(
        [
            ("source", f"{word.name}, {count(len(splits), 'split')}"),
            ("read", read),
            ("store", f"{count(segment_count, 'segment')} in {store.path}{made}"),
        ]
    )
