"""A pipeline out of a file: receivers, stores, processors and exporters, run as one.

==============  ==================================================================================
``reading``     a file, strictly: a plan, or all that is wrong with it, with lines
``kinds``       which nodes there are, and the options of each
``graph``       which way everything goes; ``remarks``: nodes beside each other
``plan``        all of it as values
``processors``  what is changed or taken out on the way
``routes``      who takes what a receiver brings; ``wiring`` puts them together
``parts``       what receivers and exporters are to a pipeline; ``standard`` makes the real ones
``running``     all of it, started and ended in order; ``leftovers`` are for no exporter
``status``      how its nodes are, as values that travel between processes
==============  ==================================================================================

::

    with open("pipeline.yaml", variables={"backend_hostname": "10.0.0.1"}) as pipeline:
        ...

``PIPELINE.md`` has every option.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from quiver.otel.pipeline.plan import Node, Outlet, Plan
from quiver.otel.pipeline.reading import examine_pipeline, is_pipeline, load_pipeline

if TYPE_CHECKING:
    import os

    from quiver.clock import Clock
    from quiver.otel.pipeline.running import Pipeline, Share

__all__ = ["Node", "Outlet", "Plan", "examine_pipeline", "is_pipeline", "load_pipeline", "open"]


def open(  # noqa: A001 As quiver.open is called.
    config: Plan | str | os.PathLike[str],
    *,
    variables: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    write: Callable[[str], object] = sys.stdout.write,
    share: Share | None = None,
    clock: Clock | None = None,
) -> Pipeline:
    """Make a pipeline of a file, or of a plan; ``start`` and ``stop`` it, or use it in a ``with``.

    ``variables`` and ``environ`` are as ``load_pipeline`` has them, ``write`` is where a console
    exporter writes. ``share`` says which of several processes this is, which then share their
    ports. Raises ConfigError that says all that is wrong with a file.
    """
    from quiver.clock import SystemClock
    from quiver.otel.pipeline.running import Pipeline
    from quiver.otel.pipeline.standard import StandardParts

    plan = config
    if not isinstance(plan, Plan):
        plan = load_pipeline(plan, variables=variables, environ=environ)
    used = clock or SystemClock()
    parts = StandardParts(
        clock=used,
        write=write,
        share_ports=share is not None,
        request_memory=plan.request_memory,
    )
    return Pipeline(plan, parts, share=share, clock=used)
