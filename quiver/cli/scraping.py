"""The option ``--metrics``: an endpoint for Prometheus for as long as a verb runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from quiver.cli.output import Output
from quiver.errors import InputError

if TYPE_CHECKING:
    from quiver.observe.prometheus import Endpoint
    from quiver.observe.sources import Watched

__all__ = ["check_endpoint", "folder_scraped", "metrics_option", "open_endpoint", "scraped"]

metrics_option: Final = click.option(
    "--metrics",
    metavar="HOST:PORT",
    help="Answer Prometheus there meanwhile; a port alone is one of 127.0.0.1.",
)


def check_endpoint(address: str | None) -> None:
    """Raise InputError, before anything is done, if there can be no endpoint at an address."""
    if address is not None:
        _module().parse_address(address)


@contextmanager
def scraped(output: Output, watched: Watched, address: str | None) -> Iterator[None]:
    """Have an endpoint for the length of a block, if an address is given."""
    if address is None:
        yield
        return
    with open_endpoint(watched, address) as endpoint:
        output.say(f"metrics: {endpoint.url}")
        yield


@contextmanager
def folder_scraped(output: Output, folder: str, address: str | None) -> Iterator[None]:
    """Have one that tells what is in a folder, for verbs that do not hold its store."""
    if address is None:
        yield
        return
    from quiver.observe import Observer

    with Observer(folder) as observer, scraped(output, observer, address):
        yield


def open_endpoint(watched: Watched, address: str) -> Endpoint:
    """Begin to answer scrapes; InputError names the extra if it is not installed."""
    found: Endpoint = _module().serve(watched, address)
    return found


def _module() -> Any:  # noqa: ANN401
    try:
        from quiver.observe import prometheus
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("prometheus_client"):
            raise
        raise InputError(
            "metrics need the package 'prometheus_client'",
            hint="pip install 'quiver-store[prometheus]'",
        ) from error
    return prometheus
