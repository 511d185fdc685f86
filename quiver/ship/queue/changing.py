"""How the manifest is changed: read, change, put if nobody else did, and again if somebody did.

A try whose answer was lost may be in. So after every conflict and every unclear answer the
manifest is read again, and whoever makes the change looks for his own before he makes it again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from quiver.clock import Clock
from quiver.errors import CapacityError, MissingError, QuiverError, RemoteError
from quiver.ship.objects import Bucket, Conflict, Tag, UnclearError
from quiver.ship.queue.manifest import NEW, Manifest, decode_manifest
from quiver.ship.queue.pace import Pace
from quiver.ship.queue.placing import placed
from quiver.ship.queue.turns import Turns
from quiver.units import SECOND

__all__ = ["MANIFEST_KEY", "Changer", "Counters", "State"]

MANIFEST_KEY: Final = "manifest"

_FAULTS_MAX: Final = 10
_REFUSALS_MAX: Final = 10
_TRIES_MAX: Final = 10_000
_ASK_EVERY: Final = 4
_UNSURE: Final = "nobody knows whether it was done"

Result = TypeVar("Result")
Make = Callable[[Manifest, bool], Manifest | None]
"""Makes the change, or gives None if there is nothing to do; True: it was tried before."""


class State(NamedTuple):
    """The manifest as it is in the store; a tag of None: it is not there."""

    manifest: Manifest
    tag: Tag | None


@dataclass(slots=True)
class Counters:
    """What was done to the manifest, since the queue was opened."""

    writes: int = 0
    """Tries to put it."""
    conflicts: int = 0
    """Of these, how many came too late."""
    faults: int = 0
    """How often the store gave no clear answer."""
    hangs: int = 0
    """How often its answer was not waited for, since others are always answered sooner."""
    pages: int = 0
    """Pages put in the place of entries."""
    page_failures: int = 0
    """Tries to do so that failed; a later append tries again."""


class Changer:
    """The manifest of one queue: what it was when last seen, and how it is changed."""

    def __init__(
        self, bucket: Bucket, clock: Clock, *, pace: Pace, turns: Turns, seconds: float
    ) -> None:
        """Try for up to so many seconds."""
        self._bucket = bucket
        self.clock = clock
        self.pace = pace
        self.turns = turns
        self.seconds = seconds
        self._state: State | None = None
        self._least = State(NEW, None)
        self.counters = Counters()
        self.place = f"{bucket.place}/{MANIFEST_KEY}"

    def forget(self) -> None:
        """Read anew before the next change."""
        self._state = None

    def read(self) -> State:
        """Read the manifest, or learn that it is as it was; tries again after faults."""
        return self.patiently(self._read, "read")

    def patiently(self, act: Callable[[], Result], what: str) -> Result:
        """Do something that may be done twice until the store answers; raises RemoteError."""
        trial = _Trial(self, what)
        while True:
            try:
                return act()
            except RemoteError as error:
                trial.note(error)

    def change(self, make: Make, what: str) -> State:
        """Change the manifest; gives it as it then is. Raises what ``make`` does, RemoteError.

        Whatever goes wrong while a try may be in is an UnclearError, but for the manifest being
        gone. What was last seen is believed only as far as a put proves it: whatever else ``make``
        says of it, it is asked again about the manifest as it is.
        """
        trial = _Trial(self, what)
        self._let_others_go_first()
        try:
            return self._tried(make, trial)
        except QuiverError as error:
            is_gone = isinstance(error, MissingError) and error.path == self.place
            if trial.is_unsure and not is_gone and not isinstance(error, UnclearError):
                raise trial.unclear_error(error) from error
            raise  # With the manifest went all that was in it, this too.

    def _tried(self, make: Make, trial: _Trial) -> State:
        while True:
            try:
                state = self._state
                if state is not None and (made := self._guess(make, state, trial)) is not None:
                    return self._put(made, state.tag, trial)
                state = self._read()
                trial.see(state.tag)
                with placed(self.place):
                    made = make(state.manifest, trial.was_sent)
                if made is None:
                    self.pace.won(trial.conflicts)
                    return state
                trial.check()
                return self._put(made, state.tag, trial)
            except RemoteError as error:
                self.forget()
                trial.note(error)

    def _let_others_go_first(self) -> None:
        """Step back before a change, if others want to make theirs."""
        if self.pace.is_time_to_look() and (seconds := self.turns.asked()):
            self.forget()
            self.pace.asked(seconds)
        if self.pace.is_contended:
            self.forget()
            self.pace.step_back()

    def _guess(self, make: Make, state: State, trial: _Trial) -> Manifest | None:
        """Change what was last seen; None if that has to be looked at first."""
        try:
            return make(state.manifest, trial.was_sent)
        except QuiverError:
            return None

    def _put(self, made: Manifest, tag: Tag | None, trial: _Trial) -> State:
        self.counters.writes += 1
        trial.was_sent = trial.is_unsure = True
        begin = self.clock.monotonic_ns()
        patience = self.pace.patience(trial.hangs, trial.conflicts)
        try:
            new = self._bucket.put_if(MANIFEST_KEY, made.data, tag, within=patience)
        except Conflict:
            self.counters.conflicts += 1
            trial.refused = (tag,)
            raise
        except CapacityError:  # Before it had its name: what is in may be so by an earlier try.
            trial.is_unsure = tag in trial.unclear
            raise
        except RemoteError as error:
            trial.is_unsure = error.retryable or isinstance(error, UnclearError)
            if trial.is_unsure:
                trial.unclear.add(tag)
            trial.hung = trial.is_unsure and self._has_waited(patience, begin)
            raise
        finally:
            self.pace.took(begin)
        self.pace.won(trial.conflicts)
        return self._keep(State(made, new))

    def _has_waited(self, patience: float | None, begin_ns: int) -> bool:
        """Whether patience came to its end, but for what clocks round off."""
        waited = (self.clock.monotonic_ns() - begin_ns) / SECOND
        return patience is not None and waited >= 0.99 * patience

    def _read(self) -> State:
        known = self._state
        try:
            if known is None or known.tag is None:
                found = self._bucket.get(MANIFEST_KEY)
            else:
                changed = self._bucket.get_if_changed(MANIFEST_KEY, known.tag)
                if changed is None:
                    return known
                found = changed
        except MissingError:
            if self._least.tag is not None:
                raise self._gone("it is not there any more") from None
            return self._keep(State(NEW, None))
        with placed(self.place):
            manifest = decode_manifest(bytes(found.data))
        least = self._least.manifest.footer.next_sequence
        if manifest.footer.next_sequence < least:
            raise self._gone(f"its next number is {manifest.footer.next_sequence}, it was {least}")
        return self._keep(State(manifest, found.tag))

    def _keep(self, state: State) -> State:
        self._state = self._least = state
        return state

    def _gone(self, how: str) -> MissingError:
        self.forget()
        return MissingError(
            f"the manifest that was in use is gone: {how}",
            path=self.place,
            hint="somebody deleted or replaced it; what was in it is lost, open the queue again",
        )


class _Trial:
    """One act, as often as it is tried."""

    def __init__(self, changer: Changer, what: str) -> None:
        self._what = f"{what} {changer.place}"
        self.conflicts = 0
        self.faults = 0
        self.refusals = 0
        self.hangs = 0
        self.hung = False
        """Whether the last try has no answer because it was not waited for."""
        self.was_sent = False
        self.is_unsure = False
        """Whether a try may be in, or still come to be."""
        self.unclear: set[Tag | None] = set()
        self.refused: tuple[Tag | None] | None = None
        self._place = changer.place
        self._counters = changer.counters
        self._pace = changer.pace
        self._turns = changer.turns
        self._clock = changer.clock
        self._end_ns = self._clock.monotonic_ns() + int(changer.seconds * SECOND)
        self._last = ""

    def see(self, tag: Tag | None) -> None:
        """Learn from the manifest's tag what became of the tries before.

        One without an answer may still be on its way, as long as the tag is the one it was for.
        """
        self.refusals += self.refused == (tag,)
        self.refused = None
        self.is_unsure = tag in self.unclear

    def note(self, error: RemoteError) -> None:
        """Wait after a failed try; raises what cannot be tried again."""
        self._last = error.message
        if isinstance(error, Conflict):
            self.conflicts += 1
            if self._pace.after_conflict(self.conflicts) and self.conflicts % _ASK_EVERY == 0:
                self._turns.ask(self._pace.turn_seconds)
            return
        if not (error.retryable or isinstance(error, UnclearError)):
            raise error
        if self.hung:  # Somebody else has most likely come first: to be looked at, at once.
            self.hung = False
            self.hangs += 1
            self.conflicts += 1
            self._counters.hangs += 1
            self._turns.ask(self._pace.turn_seconds)
            return
        self.faults += 1
        self._counters.faults += 1
        if self.faults > _FAULTS_MAX or self._is_late():
            raise self._given_up() from error
        self._pace.after_fault(self.faults)

    def check(self) -> None:
        """Raise RemoteError if it was tried for long enough: nothing of it is in."""
        too_many = self.refusals > _REFUSALS_MAX or self.conflicts > _TRIES_MAX
        if too_many or ((self.conflicts or self.faults) and self._is_late()):
            raise self._given_up()

    def _given_up(self) -> RemoteError:
        """Say that it was tried for long enough."""
        text = f"cannot {self._what} after {self.conflicts + self.faults} tries"
        if self.refusals > _REFUSALS_MAX:
            text += ": the store refuses the change though nobody else made one"
        else:
            text += f": {self._last}"
        if self.is_unsure:
            return UnclearError(text, path=self._place, retryable=True, hint=_UNSURE)
        return RemoteError(text, path=self._place, retryable=True, hint="try again later")

    def unclear_error(self, error: QuiverError) -> UnclearError:
        """Say that a try may be in, and what came in between when that was to be looked at."""
        text = f"cannot {self._what}, and not find out whether it was done: {error.message}"
        return UnclearError(text, path=self._place, retryable=True, hint=_UNSURE)

    def _is_late(self) -> bool:
        return self._clock.monotonic_ns() >= self._end_ns
