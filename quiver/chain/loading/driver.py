"""The one who drives a loader: takes in what happened, has the roll's acts done, sends entries.

All of it is done by one worker, so that nothing happens at once; what may wait for a machine is a
task beside it. Only ``send`` of a stream waits here, for as long as the chain takes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import pairwise

from quiver.chain.loading import happenings as happened
from quiver.chain.loading.alone import Alone
from quiver.chain.loading.flow import Flow
from quiver.chain.loading.mailbox import Mailbox
from quiver.chain.loading.outbox import Outbox
from quiver.chain.loading.rules import AHEAD, AWAY, REFUSALS_MAX, LoaderRules
from quiver.chain.loading.tasks import HURRY, Tasks
from quiver.chain.peers import Ack, BlockName, Route, SilentError
from quiver.chain.record import Record
from quiver.chain.rolling import (
    Act,
    Answered,
    Broken,
    Claimed,
    ClaimNow,
    CommitNow,
    Committed,
    CutNow,
    Event,
    FenceNow,
    Grew,
    Healed,
    Placed,
    PlaceNow,
    Ready,
    Roll,
    RollRules,
    TimeUp,
    Widen,
    begin,
    close,
    step,
)
from quiver.chain.rolling.roll import Phase
from quiver.errors import (
    ClosedError,
    DamageError,
    FencedError,
    InputError,
    LockedError,
    QuiverError,
    RemoteError,
)

__all__ = ["Driver"]


class Driver:
    """One loader's work. ``post`` is safe for many threads; the rest is its worker's."""

    def __init__(self, name: str, rules: LoaderRules, *, by: str, wake: Callable[[], None]) -> None:
        """Drive the loader of a partition; ``tasks`` are set before the first turn."""
        self.tasks: Tasks
        self.lock = threading.RLock()  # A signal handler may wait, also for what it interrupted.
        self.changed = threading.Condition(self.lock)
        self.outbox = Outbox()
        self.fault: QuiverError | None = None
        self.trouble: QuiverError | None = None
        self.record: Record | None = None
        """Of the open block; None before the first one is open."""
        self.is_closed = False
        self._name = name
        self._rules = rules
        self._roll_rules = RollRules(by, soft_bytes=rules.soft_bytes)
        self._wake = wake
        self.mail = Mailbox()
        self._roll: Roll | None = None
        self._takes_over, self._refusals, self._acked_turn = rules.takes_over, 0, -1
        self._pending: set[str] = set()
        self._silent = ""
        self._is_waiting = self._is_hurried = False
        self._rooms: dict[tuple[int, tuple[str, ...]], int] = {}
        self._flow = Flow()
        limit = AHEAD * rules.soft_bytes
        self._alone = Alone(self.outbox, self._flow, lock=self.lock, limit=limit)
        self._claim_is_late = False
        self._held: Record | None = None
        self._is_ending = False

    def post(self, happening: happened.Happening) -> None:
        """Tell what happened; returns at once."""
        self.mail.put(happening)
        self._wake()

    def hear(self, turn: int, ack: Ack, *, by_tail: bool = False) -> bool:
        """Let go at once of what is safe; False if this stream is over. For any thread."""
        with self.lock:
            self._flow.told = (turn, ack.length) if by_tail else self._flow.told
            is_asked = turn == self._flow.turn and not self._is_over
            is_ours = ack.length <= self._flow.length  # Nobody has more of it than was sent.
            if is_asked and is_ours and ack.last_seq > self.outbox.acked_seq:
                self.outbox.acked(ack.last_seq)
                self.trouble = None
                self.changed.notify_all()
                self._acked_turn = turn
            has_unsent = bool(self.outbox.unsent_bytes)
        if is_asked and (has_unsent or self._held or self._is_ending):
            self._wake()
        return is_asked

    def turn(self) -> None:
        """Take in all that happened, and send what can be sent."""
        try:
            if not self._is_over:
                self._turn_once()
        except BaseException as error:
            self._lose(ClosedError(f"the loader stopped in the midst of its work: {error!r:.200}"))
            raise
        finally:
            if self._is_over:
                self.mail.close()
                self._flow.close()

    def send_alone(self) -> None:
        """Send a small entry if nothing else is to be done, else by the worker; in his turn."""
        is_sent = False
        try:
            is_writing = self._roll is not None and self._roll.phase is Phase.WRITING
            is_plain = is_writing and self.mail.is_empty and not self._is_over
            is_sent = is_plain and self._alone.send()
        except QuiverError as error:
            self.mail.put(happened.StreamBroke(self._flow.turn, error))
        finally:
            if not is_sent:
                self._wake()

    @property
    def _is_over(self) -> bool:
        return self.is_closed or self.fault is not None

    def _turn_once(self) -> None:
        if self._alone.mend():
            text = "whoever sent was interrupted"
            self.mail.put(happened.StreamBroke(self._flow.turn, RemoteError(text, retryable=True)))
        is_sending = True
        while is_sending:  # What happened meanwhile comes before the next frame.
            while not self._is_over and (happening := self.mail.take()):
                self._take(happening)
            is_sending = not self._is_over and self._send_frame()
        if self._is_over:
            return
        self._end_when_drained()
        is_ended = self._is_ending and not self.outbox.kept_bytes
        if is_ended and self._roll is not None and not self._roll.is_closing:
            self._carry_out(close(self._roll))

    # what happened -------------------------------------------------------------------------------

    def _take(self, happening: happened.Happening) -> None:  # noqa: C901, PLR0912 One line for each.
        match happening:
            case happened.Begun(record):
                self._carry_out(begin(self._roll_rules, record))
            case happened.Claims(record):
                self._claim_is_late = False
                self._takes_over = False
                self._held = record
                self._end_when_drained()
            case happened.Commits(record):
                self._committed(record)
            case happened.Looked(turn, is_wider):
                self._widen(turn, is_wider=is_wider)
            case happened.Slow(epoch):
                self._claim_is_late |= self._is_at(Phase.CLAIMING, epoch)
            case happened.Failed(act, error):
                self._failed(act, error)
            case happened.Again(act):
                self._again(act)
            case happened.Places(act, locations, epoch):
                self._rooms[act.number, locations] = epoch
                self._step(Ready(act.number, locations) if act.ahead else Placed(locations))
            case Answered() | happened.Unanswered():
                self._heard(happening)
            case happened.GraceOver(epoch):
                self._grace_over(epoch)
            case happened.Lost(error):
                self._lose(error)
            case happened.Opened(turn, stream):
                if turn == self._flow.turn:
                    self._flow.stream = stream
                else:
                    stream.close()
            case happened.StreamBroke():
                self._broke(happening)
            case happened.Mended(pair):
                self._step(Healed(pair))
            case happened.Wanted():
                self._is_ending = True

    def _step(self, event: Event) -> None:
        if self._roll is not None:
            self._carry_out(step(self._roll, event))

    def _carry_out(self, stepped: tuple[Roll, tuple[Act, ...]]) -> None:
        self._roll, acts = stepped
        record = self._roll.record
        for act in acts:
            match act:
                case ClaimNow():
                    self.tasks.claim(act, takes_over=self._takes_over)
                    if self._rules.is_rising and self._flow.stream is not None:
                        self.tasks.slow(record.epoch)
                case PlaceNow():
                    self.tasks.place(act, rf=record.rf, epoch=record.epoch)
                case FenceNow():
                    self._flow.close()
                    self._pending |= set(act.locations)
                    self._is_waiting = self._is_hurried = False
                    self.tasks.fence(act)
                case CommitNow():
                    self.tasks.commit(act)
                case CutNow():
                    self.tasks.cut(act)

    def _failed(self, act: ClaimNow | CommitNow | PlaceNow | None, error: QuiverError) -> None:
        if isinstance(act, PlaceNow):
            self._look()
        if isinstance(error, RemoteError) or (self.record and type(error) in AWAY):
            self._claim_is_late |= isinstance(act, ClaimNow)
            self.trouble = error
            self.tasks.again(act)
        elif isinstance(error, LockedError) and self.record is not None:
            self._lose(FencedError(f"{self._name} was taken over: {error}"))
        else:
            self._lose(error)

    def _again(self, act: ClaimNow | CommitNow | PlaceNow | None) -> None:
        if act is None or self._roll is None:
            self.tasks.begin(self._rules.rf, is_rising=self._rules.is_rising)
        elif isinstance(act, PlaceNow) and act.ahead:
            self._step(Ready(act.number, ()))  # The next entry asks anew.
        else:
            self._carry_out((self._roll, (act,)))

    def _end_when_drained(self) -> None:
        """Go on to the fence once all that is under way is acknowledged, as long as it may be."""
        if self._held is not None and (self._flow.stream is None or not self.outbox.sent_bytes):
            record, self._held = self._held, None
            self._pending.clear()
            self._step(Claimed(record))

    def _heard(self, said: Answered | happened.Unanswered) -> None:
        if self._is_at(Phase.FENCING, said.epoch):
            if isinstance(said, Answered):
                self._pending.discard(said.answer.location)
                self._step(said)
            else:
                self._pending.discard(said.location)
                self.trouble = said.error
            self._after_answer(said.epoch)

    def _after_answer(self, epoch: int) -> None:
        """Wait for the others for a moment; decide at once when none is left to wait for."""
        if self._roll is None or not self._is_at(Phase.FENCING, epoch):
            return
        if not self._pending and self._roll.answers:
            self._step(TimeUp())
            return
        if not self._is_waiting and (self._roll.answers or not self._pending):
            self._is_waiting = True
            self.tasks.after(happened.GraceOver(epoch))
        if not self._is_hurried and self._roll.answers and self._pending == {self._silent}:
            self._is_hurried = True
            self.tasks.after(happened.GraceOver(epoch), seconds=HURRY)

    def _grace_over(self, epoch: int) -> None:
        if self._roll is not None and self._is_at(Phase.FENCING, epoch):
            self._is_waiting = self._is_hurried = False
            if not self._roll.answers:
                self._look()
            self._step(TimeUp())

    def _look(self) -> None:
        """Find out whether the partition is somebody else's by now; nobody else might tell."""
        if self._roll is not None:
            self.tasks.look(self._roll.record.epoch, self._roll_rules.by)

    def _is_at(self, phase: Phase, epoch: int) -> bool:
        roll = self._roll
        return roll is not None and roll.phase is phase and roll.record.epoch == epoch

    def _committed(self, record: Record) -> None:
        roll = self._roll
        if roll is None or roll.phase is not Phase.COMMITTING:
            return
        with self.changed:
            self.outbox.rewind(record.last_seq)
            self.record = record
            self.changed.notify_all()
        self._flow.end()
        self._step(Committed(record))
        if record.open is None:
            with self.changed:
                self.is_closed = True
                self.changed.notify_all()
            return
        locations = record.open.locations
        epoch = self._rooms.get((record.open.number, locations), record.epoch)
        self._rooms.clear()
        route = Route(BlockName(self._name, record.open.number), epoch, locations)
        self._flow.begin(route)
        self.tasks.open(route, self._flow.turn)
        self._widen(self._flow.turn, is_wider=False)

    def _widen(self, turn: int, *, is_wider: bool) -> None:
        """Look for nodes as long as the open block has too few, and roll when there are more."""
        if is_wider and turn == self._flow.turn:
            self._step(Widen())
        record, roll = self.record, self._roll
        if turn == self._flow.turn and roll is not None and record is not None and record.open:
            count = len(record.open.locations)
            if count < record.rf:
                self.tasks.look_wider(turn, count, rf=record.rf, avoid=roll.avoid)

    def _broke(self, broke: happened.StreamBroke) -> None:
        if broke.turn != self._flow.turn or self._flow.route is None:
            return
        if isinstance(broke.error, FencedError):
            self._look()
        self.trouble = broke.error
        if self._acked_turn == broke.turn:
            self._refusals = 0
        self._refusals += isinstance(broke.error, DamageError | InputError)
        if self._refusals >= REFUSALS_MAX:
            self._lose(broke.error)
            return
        chain, self._flow.route = self._flow.route.chain, None
        self._flow.close()
        far = getattr(broke.error, "path", "")
        self._silent = far if isinstance(broke.error, SilentError) else ""
        if (pair := next((each for each in pairwise(chain) if each[1] == far), None)) is not None:
            self.tasks.mend(pair)
        self._step(Broken(pair))
        self._end_when_drained()

    def _send_frame(self) -> bool:
        """Send a frame if the window lets one through; a roll is begun where one is due."""
        stream, route = self._flow.stream, self._flow.route
        if stream is None or route is None or not self._may_write():
            return False
        with self.lock:
            frame = self.outbox.take_frame(self._flow.length, self._rules)
        if not frame:
            return False
        try:
            self._flow.send(frame, stream, route)
        except QuiverError as error:
            if not self._is_over:  # Else it was closed by whoever stopped it.
                self._broke(happened.StreamBroke(self._flow.turn, error))
            return False
        return True

    def _may_write(self) -> bool:
        phase = None if self._roll is None else self._roll.phase
        if phase is Phase.WRITING and self._is_due():
            return False
        if self._flow.length >= self._rules.hard_bytes:
            return False
        is_late = self._claim_is_late and self._held is None
        return phase is Phase.WRITING or (phase is Phase.CLAIMING and is_late)

    def _is_due(self) -> bool:
        """Tell the roll how far the block is, before the next entry; whether it ends here.

        It ends when all of it is acknowledged, so that nothing is sent twice.
        """
        waiting, length, last = self.outbox.next, self._flow.length, self._flow.last
        if self._roll is None or waiting is None or length < AHEAD * self._rules.soft_bytes:
            return False
        is_later = last is None or waiting.time_ns > last.time_ns
        is_later |= length >= self._rules.hard_bytes  # Else a run of one time would stand (R16).
        ends = length >= self._rules.soft_bytes and is_later and bool(self._roll.ready)
        if ends and self.outbox.sent_bytes:
            return True
        self._step(Grew(length, is_later))
        return ends

    def _lose(self, error: QuiverError) -> None:
        """Stop for good: nobody knows what becomes of what was not acknowledged."""
        with self.changed:
            self.fault = error
            self.changed.notify_all()
        self.mail.close()
        self._flow.close()

    def stop(self) -> None:
        """Stop as a process does that is gone: the block stays open."""
        self._lose(ClosedError("the loader was closed"))
