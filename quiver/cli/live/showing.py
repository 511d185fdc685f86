"""How verbs show a screen: for as long as somebody looks, as a picture, or as text."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from quiver.cli.exits import BUG, OK
from quiver.cli.output import Output
from quiver.cli.signals import stopped_by_signals
from quiver.errors import InputError
from quiver.units import MILLISECOND, SECOND, parse_duration

if TYPE_CHECKING:
    from quiver.cli.live.frame import LiveScreen

__all__ = ["View", "show", "take_view"]

_LEAST: Final = 100 * MILLISECOND
_MOST: Final = 365 * 86_400 * SECOND
"""Longer than some centuries no thread can wait."""
_PICTURE: Final = (100, 30)
"""Columns and lines of a picture."""
_PATIENCE: Final = 0.5
"""Seconds to wait for a look that has begun: a disk that hangs must not keep a terminal."""


class View(NamedTuple):
    """How a screen is to be shown."""

    interval_ns: int
    looks: int
    """So many are taken for text, or for a picture."""
    picture: str | None
    """Where it is written."""


def take_view(*, interval: str, once: bool, svg: str | None, time: str | None) -> View:
    """Read the options that say how; raises InputError."""
    interval_ns = _duration("--interval", interval)
    looks = 2 if time is None else 1 + max(1, _duration("--for", time) // interval_ns)
    if once and svg is not None:
        raise InputError("--once is text and --svg is a picture", hint="give one of them")
    if time is not None and not (once or svg is not None):
        raise InputError("--for: a screen is looked at until q is pressed")
    if not (once or svg is not None or (sys.stdin.isatty() and sys.stdout.isatty())):
        raise InputError("top needs a terminal", hint="--once writes text, --svg a picture")
    return View(interval_ns, looks, svg)


def _duration(option: str, text: str) -> int:
    nanoseconds = parse_duration(text, key=option)
    if nanoseconds < _LEAST:
        raise InputError(f"{option}: {text} is too short", hint="100ms is the least")
    if nanoseconds > _MOST:
        raise InputError(f"{option}: {text} is too long", hint="365d is the most")
    return nanoseconds


def show(output: Output, make: Callable[[], LiveScreen], view: View) -> int:
    """Show the screen until somebody quits, or draw it once so many looks were taken.

    Gives the exit code.
    """
    if output.no_color:
        os.environ["NO_COLOR"] = "1"  # It is there that the screen looks.
    try:
        screen = make()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "textual":
            raise
        raise InputError(
            "the screen of top needs the package 'textual'",
            hint="pip install 'quiver-store[top]'; --once writes text and needs none",
        ) from error
    if view.picture is None:
        with stopped_by_signals(screen.end):
            screen.run()
    else:
        looks = view.looks
        screen.run(headless=True, size=_PICTURE, auto_pilot=lambda _: screen.draw_after(looks))
    screen.wait_for_looker(_PATIENCE)
    if screen.failure is not None:
        raise screen.failure
    if screen.return_code:  # It has shown the traceback.
        return BUG
    if view.picture is not None:
        _save(view.picture, screen.drawn)
    return OK


def _save(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error
