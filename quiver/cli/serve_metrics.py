"""``quiver serve-metrics``: what the disk tells of a store, for Prometheus."""

from __future__ import annotations

import threading

import click

from quiver.cli.output import Output
from quiver.cli.program import verb
from quiver.cli.scraping import check_endpoint, open_endpoint
from quiver.cli.signals import setting, stopped_by_signals, wait_for
from quiver.cli.stats import cap_of, size_cap_option

__all__ = ["serve_metrics"]


@verb(
    "serve-metrics",
    examples=(
        ("quiver serve-metrics store", "at http://127.0.0.1:9464/metrics, until Ctrl-C"),
        ("quiver serve-metrics store --address 0.0.0.0:9464", "for other machines too"),
        ("quiver serve-metrics store --size-cap 10GiB", "with the cap, for alerts"),
    ),
)
@click.argument("folder", metavar="DIR")
@click.option(
    "--address",
    metavar="HOST:PORT",
    default="127.0.0.1:9464",
    show_default=True,
    help="Where to answer; a port alone is one of 127.0.0.1, and 0 any that is free.",
)
@size_cap_option
def serve_metrics(output: Output, *, folder: str, address: str, size_cap: str | None) -> None:
    """Answer Prometheus with what the disk tells of a store.

    For a store that another process writes, or nobody: at each scrape its folder is read, without a
    lock, and nothing is changed. These are the gauges of quiver stats. Counters and histograms are
    in the process that writes: it serves them by quiver.observe.prometheus, or quiver ingest by
    --metrics.

    Ends with SIGINT or SIGTERM. Needs pip install 'quiver-store[prometheus]'.
    """
    from quiver.observe import Observer

    check_endpoint(address)
    ending = threading.Event()
    with Observer(folder, size_cap=cap_of(size_cap)) as observer:
        path = observer.look().path  # What cannot be read is told now, not at the first scrape.
        with (
            stopped_by_signals(setting(ending)),
            open_endpoint(observer, address) as endpoint,
        ):
            if output.as_json:
                output.line({"kind": "endpoint", "path": path, "url": endpoint.url})
            else:
                output.text(f"{path}: {endpoint.url}")
            output.flush()
            wait_for(ending)
