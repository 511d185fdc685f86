"""Who reads as of any epoch, and who follows the changes; each says what it saw as a number.

``state EPOCH DIGEST`` in the log says what there was as of an epoch.
"""

from __future__ import annotations

import random
import time
from typing import Final

from bench.kills.log import Log
from bench.upsert_kills.model import Rows, State, digest_of, rows_of
from bench.upsert_kills.setup import Setup
from quiver.errors import MissingError, QuiverError
from quiver.ship.objects import Bucket
from quiver.upsert.persist import Collection, Snapshot, changes, close_all, rows_as_of

__all__ = ["follow", "read", "state_as_of"]

_PAUSE: Final = 0.02
_TROUBLE_PAUSE: Final = 0.1
_WAITS: Final = 0.4


def read(setup: Setup, life: int, stop_before: int = 0) -> None:
    """Read as of some epochs, again and again, until killed; now and then by an older snapshot."""
    log = Log(setup.log("reader"))
    store = setup.store("reader", stop_before)
    rng = random.Random(life)
    while True:
        snapshot, began = None, time.monotonic()
        try:
            snapshot = Collection.open(store).snapshot()
            if rng.random() < _WAITS:
                time.sleep(setup.grace / 5)
                close_all()  # Files are kept open: who has them open does not see that one is gone.
            some = rng.randrange(snapshot.since, snapshot.upper)
            for epoch in (snapshot.since, some, snapshot.latest):
                log.say("state", epoch, digest_of(state_as_of(store, snapshot, epoch)))
        except (QuiverError, AssertionError) as error:
            _tell(setup, log, error, began=began if snapshot else None)
        time.sleep(_PAUSE)


def follow(setup: Setup, life: int, stop_before: int = 0) -> None:
    """Begin with a state, and do to it what changed since, until killed."""
    log = Log(setup.log("follower"))
    store = setup.store("follower", stop_before)
    rng = random.Random(life)
    state: State | None = None
    epoch, began = 0, 0.0
    while True:
        snapshot = None
        try:
            began = time.monotonic()
            snapshot = Collection.open(store).snapshot()
            if state is None or epoch < snapshot.since:
                epoch = rng.randrange(snapshot.since, snapshot.upper)
                state = state_as_of(store, snapshot, epoch)
            through = min(epoch + rng.randrange(1, 6), snapshot.latest)
            state = _follow(store, snapshot, state, after=epoch, through=through)
            epoch = through
            log.say("state", epoch, digest_of(state))
        except (QuiverError, AssertionError) as error:
            _tell(setup, log, error, began=began if snapshot else None)
            state = None
        time.sleep(_PAUSE)


def state_as_of(store: Bucket, snapshot: Snapshot, epoch: int) -> State:
    """Read all buckets as of an epoch; no key may be there twice."""
    found: State = {}
    for bucket in range(snapshot.buckets):
        for key, value, *_ in rows_of(rows_as_of(store, snapshot, bucket, epoch=epoch)):
            assert key not in found, f"{key} is there twice as of {epoch}"
            found[key] = value
    return found


def _follow(store: Bucket, snapshot: Snapshot, state: State, *, after: int, through: int) -> State:
    """Give a state with all changes done, in the order of epochs; rows must go before they come."""
    rows = [
        row
        for bucket in range(snapshot.buckets)
        for row in rows_of(changes(store, snapshot, bucket, after=after, through=through))
    ]
    found: dict[object, Rows] = dict(state)
    for key, value, epoch, diff in sorted(rows, key=lambda row: (row[2], row[3])):
        assert after < epoch <= through, f"{key} changes in {epoch}"
        if diff == -1:
            assert found.pop(key, None) == value, f"{key} loses in {epoch} what it does not have"
        else:
            assert diff == 1, f"{key} changes by {diff}"
            assert key not in found, f"{key} gets in {epoch} what it has"
            found[key] = value
    return found  # type: ignore[return-value]


def _tell(setup: Setup, log: Log, error: Exception, *, began: float | None) -> None:
    """Say what went wrong: a file that is gone is wrong unless the grace may be over."""
    is_late = began is not None and _age(began) > setup.grace / 2
    if isinstance(error, AssertionError) or (
        isinstance(error, MissingError) and began is not None and not is_late
    ):
        log.say("wrong", error)
    elif not isinstance(error, MissingError):
        log.say("error", type(error).__name__, error)
    time.sleep(_TROUBLE_PAUSE)


def _age(began: float) -> float:
    return time.monotonic() - began
