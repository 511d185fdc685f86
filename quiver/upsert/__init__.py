"""Keyed commands become a differential collection, by feedback through its own output.

A command says that a key has a value from now on, or none. What comes out are differences: rows of
a key and its value, each with a time and +1 or -1, which add up to one row for each living key at
every time. What a key had before is looked up in what was persisted, and nowhere else.

============  ==========================================================================
room          what it does
============  ==========================================================================
``rows``      commands and differences as Arrow tables; keys, their hashes, their order
``stash``     keeps one command for each key and time until its time has come
``operator``  stash, frontiers and look-ups together: commands in, differences out
``persist``   the collection in a folder or an object store: files and one manifest
``tending``   folds runs into bases, forgets history, sweeps what nobody names
``feeding``   a store's subscriber at one end, a collection at the other
``viewing``   a collection as rows and columns, for who reads it
============  ==========================================================================

::

    with quiver.subscribe("store", "users", slots=["users"]) as subscriber:
        Feeder(subscriber, "users", FeedOptions("users", key=["id"])).run()
    open_view("users").to_table()

``UPSERT.md`` tells how it is used, and what is promised.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quiver.upsert.feeding import Feeder, FeedOptions
    from quiver.upsert.viewing import View, open_view

__all__ = ["FeedOptions", "Feeder", "View", "open_view"]

_LAZY = {
    "FeedOptions": "feeding",
    "Feeder": "feeding",
    "View": "viewing",
    "open_view": "viewing",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Load a room only when it is asked for: who looks keys up needs no subscriber."""
    room = _LAZY.get(name)
    if room is None:
        raise AttributeError(f"module 'quiver.upsert' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"quiver.upsert.{room}"), name)
    globals()[name] = value
    return value
