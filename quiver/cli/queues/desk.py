"""How the verbs of ``quiver queue`` open the queue that an address names."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from quiver.ship.objects import Bucket
    from quiver.ship.queue import Queue

__all__ = ["open_place", "open_queue", "store_options", "told_options"]

Function = TypeVar("Function", bound=Callable[..., Any])


def store_options(function: Function) -> Function:
    """Let a verb take options of the store."""
    return click.option(
        "--option",
        "options",
        multiple=True,
        metavar="KEY=VALUE",
        help="An option of the store, as endpoint=https://host:9000; credentials are better in "
        "the environment.",
    )(function)


def open_queue(url: str, options: Sequence[str], *, probed: bool = False) -> Queue:
    """Open a queue; nothing is asked of the store unless it is ``probed``: where it is changed."""
    from quiver import ship

    return ship.open_queue(url, store=told_options(options), environ=os.environ, probed=probed)


def open_place(url: str, options: Sequence[str], *, probed: bool = False) -> Bucket:
    """Open a folder of a store for whatever is kept there; the same holds."""
    from quiver.ship import objects

    bucket = objects.open_bucket(url, options=told_options(options), environ=os.environ)
    if probed:
        objects.probe(bucket)
    return bucket


def told_options(options: Sequence[str]) -> dict[str, str]:
    """Read what was given by ``--option``."""
    from quiver.errors import InputError

    told: dict[str, str] = {}
    for option in options:
        key, separator, value = option.partition("=")
        if not separator or not key:  # Not shown: it may be a key of another kind.
            raise InputError("--option is KEY=VALUE", hint="as --option region=eu-central-1")
        told[key] = value
    return told
