"""``Writer``: the one who appends. Whoever opens the next one fences it.

An append is one change of the manifest: new files, how far the sources are, the next epoch. It is
in as a whole or not at all, and once, whatever answer is lost.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

import pyarrow as pa

from quiver.errors import FencedError, InputError, MissingError
from quiver.ship.objects import Bucket
from quiver.units import MILLISECOND
from quiver.upsert.persist.changing import Change, Changer
from quiver.upsert.persist.definitions import encode_schema, widen
from quiver.upsert.persist.format import FileRef, Manifest, Source
from quiver.upsert.persist.snapshot import Snapshot

__all__ = ["Appended", "Writer"]


class Appended(NamedTuple):
    """What became of an append."""

    snapshot: Snapshot
    was_persisted: bool
    """The epoch was in before: this append was dropped as a whole, and its files are garbage."""


class Writer:
    """The writing end of a collection, for one process at a time; safe for its threads."""

    def __init__(self, store: Bucket, changer: Changer, *, fence: int, collection: str) -> None:
        """Take what ``open`` made; that is for everybody else."""
        self.store = store
        self.fence = fence
        """Its number: greater than those of all writers before it."""
        self._collection = collection
        self._changer = changer
        self._turn = threading.RLock()
        self._given_up: set[str] = set()

    @classmethod
    def open(cls, store: Bucket, changer: Changer) -> Self:
        """Fence who wrote before."""

        def raise_fence(snapshot: Snapshot) -> Manifest:
            return replace(snapshot.manifest, writer=snapshot.manifest.writer + 1)

        snapshot = changer.change(raise_fence)
        manifest = snapshot.manifest
        return cls(store, changer, fence=manifest.writer, collection=manifest.collection)

    @property
    def place(self) -> str:
        """Where the collection is, for messages."""
        return self.store.place

    def snapshot(self) -> Snapshot:
        """Read the manifest as it is now. Raises FencedError if somebody else writes by now.

        And MissingError if the collection was deleted, though another one may be in its place.
        """
        return self._own(self._changer.read())

    def append(
        self,
        refs: Sequence[FileRef | None],
        epoch: int,
        *,
        sources: Mapping[str, Source] | None = None,
        value: pa.Schema | None = None,
    ) -> Appended:
        """Make the differences of one epoch part of the collection.

        ``epoch`` must be the snapshot's ``upper``: an older one is in already and is dropped, a
        later one would leave a gap. ``refs`` are what ``write_run`` gave for it, one a bucket at
        most; ``sources`` replace those of the same name, whose splits never go back; ``value`` is
        the schema that rows were written by, if it is wider. When this returns the append is
        durable and every snapshot that is read later has it.

        Raises FencedError, InputError, and UnclearError if nobody knows whether it is in: then
        open a new writer and look at its ``upper``.
        """
        named = [ref for ref in refs if ref is not None]
        _check_refs(named, epoch)
        made = False

        def append(snapshot: Snapshot) -> Manifest | None:
            nonlocal made
            own = self._own(snapshot)
            if epoch < own.upper:
                made = made and _is_in(own, named, sources or {})
                return None
            if epoch > own.upper:
                raise InputError(
                    f"epoch {epoch:,} cannot be appended to {self.place}: the next is {own.upper:,}"
                )
            made = True
            return self._appended(own, named, sources=sources or {}, value=value)

        with self._turn:
            snapshot = self._changer.change(self._kept(append))
        return Appended(snapshot, was_persisted=not made)

    def change(self, make: Callable[[Snapshot], Manifest | None]) -> Snapshot:
        """Change the manifest otherwise: fold, forget, sweep. ``make`` gives None if all is done.

        It is called again whenever others changed the manifest meanwhile. Raises FencedError.
        """
        with self._turn:
            return self._changer.change(self._kept(lambda snapshot: make(self._own(snapshot))))

    def give_up(self, names: Iterable[str]) -> set[str]:
        """Give those files of these that no manifest names, and none ever will: to be deleted.

        No append whose answer was lost comes in behind this, and one that still names such a file
        is refused. Raises FencedError, UnclearError.
        """
        with self._turn:
            manifest = self.change(lambda now: now.manifest).manifest
            named = {each.name for part in (manifest.files, manifest.dropped) for each in part}
            unnamed = set(names) - named
            self._given_up |= unnamed
            return unnamed

    def _kept(self, make: Change) -> Change:
        """Refuse to name a file that was given up."""

        def kept(snapshot: Snapshot) -> Manifest | None:
            wanted = make(snapshot)
            files = wanted.files if wanted is not None and self._given_up else ()
            lost = next((ref.name for ref in files if ref.name in self._given_up), None)
            if lost is not None:
                raise InputError(
                    f"{lost} was swept before it became part of {self.place}",
                    hint="write it anew, and append it within the grace of the sweep",
                )
            return wanted

        return kept

    def _own(self, snapshot: Snapshot) -> Snapshot:
        if snapshot.manifest.collection != self._collection:
            raise MissingError(
                f"the collection in {self.place} was deleted, and another one made in its place",
                path=self.place,
                hint="what was in the first one is gone; open the other one to write it",
            )
        current = snapshot.manifest.writer
        if current != self.fence:
            raise FencedError(
                f"somebody else writes {self.place} by now",
                epoch=self.fence,
                current=current,
                hint="one writer at a time; the newest one goes on",
            )
        return snapshot

    def _appended(
        self,
        snapshot: Snapshot,
        refs: Sequence[FileRef],
        *,
        sources: Mapping[str, Source],
        value: pa.Schema | None,
    ) -> Manifest:
        manifest = snapshot.manifest
        for ref in refs:
            if ref.bucket >= manifest.buckets:
                raise InputError(f"{ref.name} is of bucket {ref.bucket:,}, which there is not")
        for name, source in sources.items():
            _check_forward(name, manifest.sources.get(name), source)
        files = sorted([*manifest.files, *refs], key=_place)
        schema = manifest.value
        if value is not None:
            wider = widen(snapshot.definition, value)
            if wider is not snapshot.definition:
                schema = encode_schema(wider.value)
        return replace(
            manifest,
            upper=manifest.upper + 1,
            times=(*manifest.times, self._changer.clock.wall_ns() // MILLISECOND),
            sources={**manifest.sources, **sources},
            files=tuple(files),
            value=schema,
        )


def _is_in(snapshot: Snapshot, refs: Sequence[FileRef], sources: Mapping[str, Source]) -> bool:
    """Whether the last append was this one, and not one of the same epoch that was given up."""
    names = {ref.name for ref in snapshot.files}
    return all(ref.name in names for ref in refs) and all(
        snapshot.sources.get(name) == source for name, source in sources.items()
    )


def _place(ref: FileRef) -> Any:  # noqa: ANN401
    return ref.bucket, ref.kind == "run", ref.first


def _check_refs(refs: Sequence[FileRef], epoch: int) -> None:
    for ref in refs:
        if ref.kind != "run" or ref.first != epoch or ref.last != epoch:
            raise InputError(
                f"{ref.name} is a {ref.kind} of epochs {ref.first:,} to {ref.last:,},"
                f" and no run of {epoch:,}"
            )
    buckets = [ref.bucket for ref in refs]
    if len(set(buckets)) < len(buckets):
        raise InputError("an append has two runs of one bucket", hint="write one for each")


def _check_forward(name: str, before: Source | None, after: Source) -> None:
    """See that no split goes back: what lies between would come twice."""
    for split, place in (before.splits if before else {}).items():
        if after.splits.get(split, -1) < place:
            raise InputError(
                f"split {split!r} of source {name!r} is at {place:,} and cannot go back to "
                f"{after.splits.get(split, 'nothing')}",
                hint="rows before it are in already; drop them first",
            )
