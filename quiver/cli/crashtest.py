"""``quiver crashtest``: look for a crash that loses something, in Quiver or in another store."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import click

from quiver.cli.exits import FOUND, OK
from quiver.cli.output import Output
from quiver.cli.program import COUNT_MAX, verb

if TYPE_CHECKING:
    from quiver.testing.campaign import Chapter, Failure
    from quiver.testing.runner import Summary

__all__ = ["crashtest"]


@verb(
    "crashtest",
    examples=(
        ("quiver crashtest", "10,000 images of crashes, in half a minute"),
        ("quiver crashtest --seed 7 --images 1000000", "other lives, and many more"),
        ("quiver crashtest --export case", "keep the disk of a loss, to open it"),
        ("quiver crashtest --subject mystore.crash:subject", "aim it at a store of your own"),
    ),
)
@click.option("--seed", default=0, show_default=True, help="Equal seeds find equal things.")
@click.option(
    "--model",
    type=click.Choice(["posix", "journaled", "both"]),
    default="both",
    show_default=True,
    help="What a power cut may lose: all that POSIX allows, or what ext4 and XFS do.",
)
@click.option(
    "--images",
    metavar="N",
    type=click.IntRange(1, COUNT_MAX),
    default=10_000,
    show_default=True,
    help="Stop after the life with which so many are judged.",
)
@click.option(
    "--budget",
    metavar="N",
    type=click.IntRange(1, COUNT_MAX),
    default=1500,
    show_default=True,
    help="Images of one life under each model, those of recoveries not counted.",
)
@click.option(
    "--depth",
    metavar="N",
    type=click.IntRange(1, 4),
    default=2,
    show_default=True,
    help="Crashes in a row: 2 cuts each recovery as well.",
)
@click.option(
    "--nested",
    metavar="N",
    type=click.IntRange(1, COUNT_MAX),
    default=8,
    show_default=True,
    help="Images of one recovery that is cut.",
)
@click.option(
    "--nested-share",
    metavar="X",
    type=click.FloatRange(0, 1),
    default=0.3,
    show_default=True,
    help="Of how many images the recovery is cut.",
)
@click.option(
    "--jobs",
    metavar="N",
    type=click.IntRange(1, 1024),
    default=None,
    help="Processes; the result is the same for any number.  [default: one for each processor]",
)
@click.option("--export", metavar="DIR", help="Write the disk of the first loss to a new folder.")
@click.option("--subject", metavar="MODULE:FUNCTION", help="Another store; see CRASHTEST.md.")
def crashtest(
    output: Output,
    *,
    seed: int,
    model: str,
    images: int,
    budget: int,
    depth: int,
    nested: int,
    nested_share: float,
    jobs: int | None,
    export: str | None,
    subject: str | None,
) -> int:
    """Look for a crash that loses something.

    Leads short lives of a store on a disk in RAM that records each act, enumerates what a power
    cut may leave after each of them, opens it, and holds it to all that the store had promised.
    The first loss ends the run and is shrunk to the fewest acts lost; the exit code is 1 then.
    """
    from quiver.errors import InputError
    from quiver.testing.campaign import MODELS, Plan
    from quiver.testing.runner import QUIVER, run

    if export is not None and os.path.lexists(export):
        raise InputError(f"{export} is there already", hint="name a folder that is not")

    plan = Plan(
        seed=seed,
        models=[known for known in MODELS if model in (known, "both")],
        images_per_life=budget,
        depth=depth,
        nested_images=nested,
        nested_share=nested_share,
    )
    begun = time.monotonic()
    with output.progress("judging", images, unit="images") as advance:

        def told(chapter: Chapter) -> None:
            advance(chapter.images)

        workers = jobs or len(os.sched_getaffinity(0))
        summary = run(subject or QUIVER, plan, images=images, workers=workers, told=told)
    _show(output, summary, time.monotonic() - begun)
    for failure in summary.failures:
        _tell(output, failure, export)
    return FOUND if summary.failures else OK


def _show(output: Output, summary: Summary, seconds: float) -> None:
    if output.as_json:
        output.document(
            {
                "life_count": summary.chapters,
                "image_count": summary.images,
                "distinct_count": summary.distinct,
                "nested_count": summary.nested,
                "fault_count": summary.faults,
                "loss_count": len(summary.failures),
                "losses": [str(failure) for failure in summary.failures],
                "digest": summary.digest,
                "seconds": round(seconds, 3),
            }
        )
        return
    output.facts(
        [
            ("lives", f"{summary.chapters:,}"),
            ("images judged", f"{summary.images:,} in {seconds:.1f} s"),
            ("distinct disks", f"{summary.distinct:,}"),
            ("in recoveries", f"{summary.nested:,}"),
            ("failing acts", f"{summary.faults:,}"),
            ("losses", f"{len(summary.failures):,}"),
            ("digest", summary.digest),
        ]
    )


def _tell(output: Output, failure: Failure, export: str | None) -> None:
    if not output.as_json:
        output.text("")
        output.lines(str(failure), style="red")
    if export is not None:
        failure.images[-1].export(export)
        output.say(f"the disk of this loss is in {export}")
