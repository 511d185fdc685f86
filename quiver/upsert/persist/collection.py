"""``Collection``: a place in a store, its manifest read, and opened for writing."""

from __future__ import annotations

from secrets import token_bytes
from typing import Final, Self

from quiver.clock import Clock, SystemClock
from quiver.errors import ConfigError, InputError, MissingError
from quiver.manifest import MANIFEST_NAME
from quiver.schemas import same_schema
from quiver.ship.objects import Bucket, probe
from quiver.units import MILLISECOND
from quiver.upsert.persist.changing import Changer
from quiver.upsert.persist.definitions import check_definition, encode_schema, widen
from quiver.upsert.persist.format import Manifest
from quiver.upsert.persist.snapshot import Snapshot
from quiver.upsert.persist.writer import Writer
from quiver.upsert.rows.definition import Definition

__all__ = ["Collection"]

_ID_BYTES: Final = 16


class Collection:
    """A collection in a store. Safe for many threads; processes open their own."""

    def __init__(self, store: Bucket, changer: Changer) -> None:
        """Take what ``open`` made; that is for everybody else."""
        self.store = store
        self._changer = changer

    @classmethod
    def open(
        cls,
        store: Bucket,
        definition: Definition | None = None,
        *,
        create: bool = False,
        clock: Clock | None = None,
    ) -> Self:
        """Open the collection of a store, made if there is none and ``create`` says so.

        With a definition its key and buckets must be those of the collection, and its value must
        fit into the collection's, or be what that can be widened to. Raises MissingError,
        ConfigError for another definition, InputError for one to be made in the place of a store,
        DamageError, RemoteError.
        """
        clock = clock or SystemClock()
        changer = Changer(store, clock)
        if definition is not None:
            definition = check_definition(definition)
        if create:
            if definition is None:
                raise ConfigError("a collection is created by a definition", hint="give one")
            _check_place(store)
            changer.create(_first(definition, clock))
        snapshot = changer.read()
        if definition is not None:
            _check_alike(snapshot, definition)
        return cls(store, changer)

    @property
    def place(self) -> str:
        """Where it is, for messages."""
        return self.store.place

    def snapshot(self) -> Snapshot:
        """Read the manifest as it is now."""
        return self._changer.read()

    def writer(self) -> Writer:
        """Open it for writing; who had done so before is fenced from now on.

        Raises RemoteError for a store that does not keep conditional puts, by the name of its
        fault.
        """
        probe(self.store)
        return Writer.open(self.store, self._changer.again())


def _check_place(store: Bucket) -> None:
    """Raise InputError if a collection would come to lie among the files of a store."""
    try:
        store.get(MANIFEST_NAME)
    except MissingError:
        return
    raise InputError(
        f"{store.place} is a store, and no place for a collection",
        hint="name a folder of its own",
    )


def _first(definition: Definition, clock: Clock) -> Manifest:
    return Manifest(
        token_bytes(_ID_BYTES).hex(),
        encode_schema(definition.key),
        encode_schema(definition.value),
        definition.buckets,
        times=(clock.wall_ns() // MILLISECOND,),
    )


def _check_alike(snapshot: Snapshot, definition: Definition) -> None:
    found = snapshot.definition
    if found.buckets != definition.buckets:
        raise ConfigError(
            f"{snapshot.place} has {found.buckets:,} buckets, not {definition.buckets:,}",
            hint="the number is chosen once, when a collection is created",
        )
    if not same_schema(found.key, definition.key):
        raise ConfigError(
            f"{snapshot.place} has another key: {_shown(found)}, not {_shown(definition)}",
            hint="names, order and types of its columns are chosen once",
        )
    widen(found, definition.value)


def _shown(definition: Definition) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in definition.key)
