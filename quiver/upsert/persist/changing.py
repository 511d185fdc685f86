"""How the manifest is changed: read, change, put if nobody else did, and again if somebody did.

A try whose answer was lost may be in, or come in later. So after every conflict and every unclear
answer the manifest is read again, and whoever makes the change looks for his own before he makes it
once more: all tries of one change carry the same tag, so that no more than one of them is ever in.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from quiver.clock import Clock
from quiver.errors import (
    DamageError,
    MissingError,
    QuiverError,
    RemoteError,
    StorageError,
    VersionError,
)
from quiver.ship.objects import Bucket, Conflict, Found, Tag, UnclearError
from quiver.upsert.persist.format import Manifest, decode_manifest, encode_manifest
from quiver.upsert.persist.snapshot import Snapshot, snapshot_of

__all__ = ["MANIFEST_KEY", "Change", "Changer"]

MANIFEST_KEY: Final = "manifest"

Change = Callable[[Snapshot], Manifest | None]
"""Makes the change, or gives None if it is done already. May be called often."""

_State = tuple[Snapshot, Tag]

_TRIES_MAX: Final = 1000
_FAULTS_MAX: Final = 8
_PAUSE_SECONDS: Final = 0.05
_PAUSE_MAX: Final = 2.0


class Changer:
    """The manifest of one collection: what it was when last seen, and how it is changed."""

    def __init__(self, store: Bucket, clock: Clock) -> None:
        self._store = store
        self.clock = clock
        self.place = f"{store.place}/{MANIFEST_KEY}"
        self._mutex = threading.Lock()
        self._seen: _State | None = None

    def again(self) -> Changer:
        """Give one more for the same manifest, with a memory of its own."""
        return Changer(self._store, self.clock)

    def create(self, manifest: Manifest) -> None:
        """Put the first manifest unless there is one; of many that do so at once one succeeds."""
        data = encode_manifest(manifest)
        faults = 0
        for _ in range(_TRIES_MAX):
            try:
                self._store.get(MANIFEST_KEY)
                return
            except MissingError:
                pass
            try:
                self._store.put_if(MANIFEST_KEY, data, None)
                return
            except Conflict:
                continue
            except UnclearError:
                faults += 1
                if faults >= _FAULTS_MAX:
                    raise
                self._wait(faults)
        raise self._restless()

    def read(self) -> Snapshot:
        """Read the manifest as it is now. Raises MissingError, DamageError, VersionError."""
        return self._read()[0]

    def _read(self) -> _State:
        with self._mutex:
            seen = self._seen
        try:
            if seen is None:
                found = self._store.get(MANIFEST_KEY)
            else:
                changed = self._store.get_if_changed(MANIFEST_KEY, seen[1])
                if changed is None:
                    return seen
                found = changed
        except MissingError as error:
            raise MissingError(
                f"there is no collection in {self._store.place}",
                path=error.path,
                hint="quiver upsert and quiver.spark.upsert make one; is the address right?",
            ) from error
        state = self._decoded(found), found.tag
        with self._mutex:
            self._seen = state
        return state

    def _decoded(self, found: Found) -> Snapshot:
        try:
            manifest = decode_manifest(memoryview(found.data).cast("B"))
        except DamageError as error:
            raise error.at(self.place) from None
        except VersionError as error:
            raise VersionError(f"{self.place}: {error.message}", hint=error.hint) from None
        return snapshot_of(manifest, self._store.place)

    def change(self, make: Change) -> Snapshot:
        """Change the manifest, against all who do so; gives it as it is then.

        Raises what ``make`` raises. Whatever else goes wrong once a try may be in is an
        UnclearError, and what was seen is forgotten: whoever comes next looks first.
        """
        faults = 0
        was_tried = is_unclear = False
        known = self._known(make)
        for _ in range(_TRIES_MAX):
            try:
                state = known[0] if known else self._read()
            except (StorageError, DamageError) as error:
                faults += 1
                if faults < _FAULTS_MAX and error.retryable:
                    self._wait(faults)
                    continue
                if was_tried and (is_unclear or not isinstance(error, MissingError)):
                    raise self._unclear(error) from error
                raise
            wanted = known[1] if known else make(state[0])
            known = None
            if wanted is None:
                return state[0]
            wanted = replace(wanted, change=state[0].manifest.change + 1)
            was_tried = True
            try:
                tag = self._store.put_if(MANIFEST_KEY, encode_manifest(wanted), state[1])
            except Conflict:
                continue
            except UnclearError as error:
                faults += 1
                is_unclear = True
                if faults >= _FAULTS_MAX:
                    raise self._unclear(error) from error
                self._wait(faults)
                continue
            made = snapshot_of(wanted, self._store.place)
            with self._mutex:
                self._seen = made, tag
            return made
        raise self._restless()

    def _unclear(self, error: QuiverError) -> UnclearError:
        with self._mutex:
            self._seen = None
        return UnclearError(
            f"nobody knows whether {self.place} was changed: {error.message}",
            path=self.place,
            retryable=True,
            hint="look at it again, or open a new writer",
        )

    def _restless(self) -> RemoteError:
        text = f"{self.place} is changed by others all the time"
        return RemoteError(text, path=self.place, retryable=True)

    def _known(self, make: Change) -> tuple[_State, Manifest] | None:
        """Make the change to what was seen last; None if that may be too old for it."""
        with self._mutex:
            state = self._seen
        if state is None:
            return None
        try:
            wanted = make(state[0])
        except QuiverError:
            return None
        return None if wanted is None else (state, wanted)

    def _wait(self, faults: int) -> None:
        self.clock.pause(min(_PAUSE_SECONDS * 2**faults, _PAUSE_MAX))
