"""Whom a collector asks: open stores, or the folder of one that another process writes."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from quiver.engine import CoreStats, Store
from quiver.errors import InputError, QuiverError
from quiver.metrics import Histogram
from quiver.observe.readings import Reading, read_counters, read_gauges
from quiver.observe.snapshot import Observer

__all__ = ["FolderSource", "Found", "Source", "StoreSource", "Watched", "sources_of"]

Watched: TypeAlias = (
    Store
    | Iterable[Store]
    | Mapping[str, Store]
    | Mapping[str, Sequence[Store]]
    | Mapping[str, Observer]
    | Observer
)
"""One store; several, each of another core; stores by name, which is the label ``store``, also
several under one; or the folder of a store that other processes write, or several by name.
"""


@dataclass(frozen=True, slots=True)
class Found:
    """What a source says of one core."""

    core: int
    store: str
    """The name that it was given; empty if it has none."""
    readings: tuple[Reading, ...]
    histograms: Mapping[str, Histogram] = field(default_factory=dict)
    """By name of the metric; none where nobody measures."""


class Source(Protocol):
    """Gives all that is known at this moment."""

    def collect(self) -> Iterator[Found]:
        """Look at each core once."""
        ...


@dataclass(frozen=True, slots=True)
class StoreSource:
    """An open store of this process; once it is closed, or in a forked child, it is silent."""

    store: Store
    name: str = ""

    def collect(self) -> Iterator[Found]:
        """Look at its core; what it counted is read first, so that no gauge is behind it."""
        metrics = self.store.instruments
        counted, histograms = metrics.read(), metrics.read_histograms()
        try:
            stats = self.store.stats()
        except QuiverError:
            if self.store.closed or self.store.inherited:
                return  # Perhaps only since we began to look.
            raise
        names = [subscriber.name for subscriber in stats.subscribers]
        counters = read_counters(stats.core, counted, subscribers=names)
        yield Found(stats.core, self.name, (*counters, *read_gauges(stats)), histograms)


class FolderSource:
    """A store that other processes write, looked at by one thread at a time."""

    def __init__(self, observer: Observer, name: str = "") -> None:
        self._observer, self._name = observer, name
        self._turn = threading.Lock()

    def collect(self) -> Iterator[Found]:
        """Look at each core of the folder."""
        with self._turn:
            cores: tuple[CoreStats, ...] = self._observer.look().cores
        for stats in cores:
            yield Found(stats.core, self._name, tuple(read_gauges(stats)))


def _each(stores: Store | Observer | Sequence[Store]) -> Sequence[Store]:
    if isinstance(stores, Observer):
        return ()
    return [stores] if isinstance(stores, Store) else stores


def sources_of(watched: Watched) -> list[Source]:
    """Make sources of what is to be watched; InputError if two could not be told apart."""
    if isinstance(watched, Observer):
        return [FolderSource(watched)]
    if isinstance(watched, Store):
        watched = [watched]
    if isinstance(watched, Mapping):
        folders = {name: each for name, each in watched.items() if isinstance(each, Observer)}
        if folders:
            return [FolderSource(observer, name) for name, observer in folders.items()]
        found = [
            StoreSource(store, name) for name, stores in watched.items() for store in _each(stores)
        ]
    else:
        found = [StoreSource(store) for store in watched]
    seen = set()
    for source in found:
        key = source.name, source.store.core
        if key in seen:
            raise InputError(
                f"two stores have core {source.store.core} and would give the same metrics",
                hint="give them names: {'orders': store, 'users': other}",
            )
        seen.add(key)
    return list(found)
