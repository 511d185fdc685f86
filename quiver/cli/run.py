"""``quiver run``: a pipeline of telemetry, until it is told to end."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Final

import click

from quiver.cli.exits import OK
from quiver.cli.opening import named_values
from quiver.cli.output import Output
from quiver.cli.program import verb
from quiver.cli.runs.logged import events_shown
from quiver.cli.runs.pages import Face, pages_open
from quiver.cli.runs.telling import Told
from quiver.cli.signals import setting, stopped_by_signals
from quiver.errors import InputError

if TYPE_CHECKING:
    from quiver.otel.pipeline import Plan

__all__ = ["run"]

_CORES_MAX: Final = 256
_LOOK_SECONDS: Final = 0.25
_TELL_EVERY: Final = 40
"""Looks between two lines of JSON that say how far it is: ten seconds."""


@verb(
    "run",
    examples=(
        ("quiver run pipeline.yaml", "until SIGTERM or Ctrl-C, then it drains"),
        ("quiver run pipeline.yaml --set backend_hostname=10.0.0.1", "for {{backend_hostname}}"),
        ("quiver run pipeline.yaml --listen 127.0.0.1:13133", "with health and metrics there"),
        ("quiver run pipeline.yaml --drain", "deliver what its stores have, and end"),
        ("quiver run pipeline.yaml --cores 4", "processes that share ports and stores"),
    ),
)
@click.argument("file", metavar="FILE")
@named_values
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Answer /healthz, /readyz, /status and /metrics there; above the file's service.",
)
@click.option(
    "--cores",
    type=click.IntRange(1, _CORES_MAX),
    default=1,
    show_default=True,
    metavar="N",
    help="So many processes, each with a core of every store.",
)
@click.option(
    "--drain", is_flag=True, help="Open no receiver: deliver all that is stored, then end."
)
@click.option("--child", is_flag=True, hidden=True, help="Be one of them: the job is on stdin.")
def run(
    output: Output, *, file: str, listen: str | None, cores: int, drain: bool, child: bool
) -> int:
    """Run a pipeline of telemetry: receivers, stores, exporters.

    Receivers take OTLP or OTAP and say that a request was taken when it survives a power cut in a
    store; exporters go on from there, each at its own pace, however often this is killed in
    between. FILE has nodes as otap-dataflow has them, and --set gives values to names in double
    braces; what has none there is looked for in the environment.

    SIGTERM and SIGINT drain: receivers answer what is in work and close, exporters go on until all
    is delivered or service.drain_timeout is over. A second signal ends it at once. Nothing that was
    acknowledged is lost either way.

    With --cores the processes share their ports. One that dies is started again; when one dies
    again and again everything ends, with its exit code.

    With --drain nothing is taken in, and it ends once every exporter has everything, from all
    cores of the stores, however long that takes; a signal ends it before.

    quiver/otel/TELEMETRY.md begins with a small file; quiver/otel/pipeline/PIPELINE.md has every
    option. Needs pip install 'quiver-store[otlp]'.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # What fails is told by us, once.
    if child:
        from quiver.cli.runs.child import serve_child

        return serve_child(sys.stdin)
    from quiver.otel.pipeline import load_pipeline

    plan = load_pipeline(file, variables=output.overrides, environ=os.environ)
    address = plan.listening_addr
    if listen is not None:
        address = _address(listen)
    if drain and cores > 1:
        raise InputError("--drain is for one process", hint="it takes the cores of all of them")
    if drain and not plan.stores:
        raise InputError(f"{file} has no store: there is nothing to drain")
    told = Told(output)
    told.plan(plan)
    if cores > 1:
        from quiver.cli.runs.workers import run_many

        return run_many(plan, told, variables=output.overrides, count=cores, address=address)
    with output.progress("taken", None, unit="items") as told.advance:
        return _run_one(plan, told, address, drain=drain)


def _address(text: str) -> str:
    from quiver.otel.pipeline.options import address

    try:
        return address(text, "--listen")
    except InputError as error:
        raise InputError(error.message, hint=error.hint) from error


def _run_one(plan: Plan, told: Told, address: str | None, *, drain: bool) -> int:
    from quiver.otel import pipeline as pipelines

    ending = threading.Event()
    pipeline = pipelines.open(plan, write=told.write)
    face = Face(
        not_ready=pipeline.not_ready,
        status=pipeline.status,
        watched=lambda: [pipeline.stores] if pipeline.stores else [],
    )
    with (
        stopped_by_signals(setting(ending)),
        events_shown(told.event),
        pages_open(address, face) as url,
    ):
        pipeline.start(receive=not drain)
        try:
            told.leftovers(pipeline.leftovers)
            told.passed_over(pipeline.passed_over)
            told.ready(pipeline.addresses, url, 1)
            looks = 0
            if drain:
                told.ending()
                pipeline.drain()
            while not (ending.wait(_LOOK_SECONDS) or pipeline.failure or pipeline.is_drained):
                looks += 1
                is_due = looks % _TELL_EVERY == 0
                if is_due or told.is_watched:  # To ask takes time from those who are at work.
                    told.status(pipeline.status(), is_due=is_due)
            failure = pipeline.failure
            if not drain:
                told.ending()
        except BaseException:
            pipeline.stop(0.0)
            raise
        late = pipeline.stop(None if failure is None else 0.0)
        told.status(pipeline.status(), is_due=True)
    if failure is not None:
        raise failure
    told.ended(late, restarts=0)
    return OK
