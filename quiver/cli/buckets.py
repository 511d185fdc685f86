"""Queues in object stores, as verbs name them: a URL, and how its store is reached."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click

from quiver.errors import InputError, MissingError

if TYPE_CHECKING:
    from quiver.ship.queue import Queue

__all__ = ["check_there", "open_queue", "reach_option"]

reach_option: Final = click.option(
    "--option",
    "reach",
    multiple=True,
    metavar="KEY=VALUE",
    help="How the store of objects is reached, as region=eu-west-1; secrets rather by environment. "
    "Repeatable.",
)


def open_queue(url: str, reach: Sequence[str], *, is_changed: bool) -> Queue:
    """Open the queue at a URL; of one that is changed, first see whether its store is fit."""
    from quiver import ship

    return ship.open_queue(url, store=_options(reach), environ=os.environ, probed=is_changed)


def _options(pairs: Sequence[str]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (key and equals):  # Not shown as a whole: it may be a secret.
            raise InputError("--option needs KEY=VALUE, as region=eu-west-1 is")
        if key in found:
            raise InputError(f"--option names {key} twice")
        found[key] = value
    return found


def check_there(queue: Queue) -> None:
    """Raise MissingError if nobody ever put anything into a queue."""
    if not queue.read().next_sequence:
        raise MissingError(
            f"there is no queue in {queue.place}",
            path=queue.place,
            hint="quiver ship makes one; is the address right?",
        )
