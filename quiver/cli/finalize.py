"""``quiver finalize``: recover a store that nobody has open, and make its log a segment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from quiver.cli.exits import DAMAGED, OK
from quiver.cli.opening import config_options, strict_option, visit_store
from quiver.cli.output import Output, count
from quiver.cli.program import verb

if TYPE_CHECKING:
    from quiver.engine import RecoveryReport
    from quiver.errors import DamageError

__all__ = ["finalize"]


@verb(
    "finalize",
    examples=(
        ("quiver finalize store", "after a crash: the WAL becomes a segment"),
        ("quiver finalize store --strict", "refuse a damaged store and leave it as it is"),
        ("quiver finalize store --json | jq '.cores[].damage'", "what recovery set aside"),
    ),
)
@click.argument("folder", metavar="DIR")
@strict_option
@config_options
def finalize(output: Output, *, folder: str, strict: bool) -> int:
    """Recover a store and make its log a segment.

    Opens the store as its writer, so nobody else may be writing it. Damage is set aside in
    quarantine as with every opening, or with --strict left as it is; the exit code is 9 then.
    """
    from quiver.cli.inspect import core_numbers, open_folder
    from quiver.manifest import StoreManifest

    disk = open_folder(folder)
    try:
        StoreManifest.read(disk)
        cores = core_numbers(disk)
    finally:
        disk.close()
    reports = [_finalize(output, folder, core, strict=strict) for core in cores]
    if output.as_json:
        output.document({"path": disk.root, "cores": reports})
    else:
        for report in reports:
            _print(output, report, many=len(reports) > 1)
    return DAMAGED if any(report["damage"] for report in reports) else OK


def _finalize(output: Output, folder: str, core: int, *, strict: bool) -> dict[str, Any]:
    with visit_store(output, folder, strict=strict, core=core) as store:
        store.finalize()
        recovery: RecoveryReport = store.recovery
        written = store.metrics().get(("quiver.segment.finalized_segments", ""), 0)
        state = store.info()
    torn = recovery.torn_tail
    return {
        "core": core,
        "replayed_bundle_count": recovery.replayed_bundles,
        "skipped_bundle_count": recovery.skipped_bundles,
        "torn_tail": None if torn is None else _fields(torn),
        "damage": [_fields(error) for error in recovery.damage],
        "written_segment_count": written,
        "segment_count": state.segments,
        "segment_bytes": state.segment_bytes,
        "next_wal_seq": state.next_wal_seq,
    }


def _fields(error: DamageError) -> dict[str, Any]:
    return {
        "path": error.path,
        "offset": error.offset,
        "message": error.message,
        "expected": None if error.expected is None else str(error.expected),
        "found": None if error.found is None else str(error.found),
    }


def _print(output: Output, report: dict[str, Any], *, many: bool) -> None:
    rows = [("core", str(report["core"]))] if many else []
    replayed, skipped = report["replayed_bundle_count"], report["skipped_bundle_count"]
    text = f"{count(replayed, 'bundle')} brought back from the WAL"
    if skipped:
        text += f", {skipped:,} were in segments already"
    rows.append(("recovery", text))
    if report["torn_tail"] is not None:
        torn = report["torn_tail"]
        cut = f"an append that was not finished, in {torn['path']} at byte {torn['offset']:,}"
        rows.append(("cut off", cut))
    for error in report["damage"]:
        place = f"{error['message']} in {error['path']} at byte {error['offset']:,}"
        rows.append(("set aside", place))
    written = count(report["written_segment_count"], "segment")
    rows.append(("segments", f"{written} written, {report['segment_count']:,} in the store"))
    output.facts(rows)
