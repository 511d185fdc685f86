"""Take over what subscribers in other processes did: from their inboxes into ack.log.

An inbox says all that its subscriber did, so to fold it in twice is to fold it in once. It is read
again only when it changed. Nobody has to be believed: an inbox can resolve bundles for the one
subscriber whose name it bears, under the newest lease, and nothing else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final

from quiver.acks import DEAD_ATTEMPTS, DEAD_REJECTED, Ack, Lease, Nack, Record
from quiver.acks.inbox import DeadLetterState, Inbox
from quiver.acks.letterbox import holding, list_inbox, read_inbox, write_inbox
from quiver.disk import Stat
from quiver.engine import delivery, lifecycle
from quiver.engine.core import Core
from quiver.engine.inboxes import (
    check_lease,
    forget_inbox,
    has_inbox,
    inbox_folder,
    set_aside,
    tell_paused,
)
from quiver.engine.space import sync_acks
from quiver.engine.start import Position
from quiver.errors import (
    CapacityError,
    DamageError,
    InputError,
    MissingError,
    QuiverError,
    StorageError,
    SubscriberError,
    VersionError,
)
from quiver.subscriber import Claim, Member, NackSnapshot
from quiver.units import SECOND

__all__ = ["WHOLE_FOLDER", "fold", "take_in", "take_over", "try_fold"]

WHOLE_FOLDER: Final = "."
"""Its key among what is refused, when it is no folder that may be read."""

_FRESH_NS: Final = SECOND
"""So long after it was written a file may be written again without looking any different."""
_RECORDS_MAX: Final = 4096


def fold(core: Core) -> int:
    """Fold in every inbox that changed; give how many bundles got an outcome by it.

    What cannot be believed is kept in ``core.refused_inboxes``, by name, and left where it is.
    """
    core.check()
    folder, total = inbox_folder(core.folder), 0
    try:
        found = list_inbox(core.disk, folder)
    except StorageError as error:
        _refuse(core, WHOLE_FOLDER, error)
        return 0
    names = {stat.name for stat in found}
    core.folded = {name: seen for name, seen in core.folded.items() if name in names}
    core.refused_inboxes = {n: e for n, e in core.refused_inboxes.items() if n in names}
    failure: QuiverError | None = None
    for stat in found:
        if core.folded.get(stat.name) == (stat.size, stat.modified_ns):
            continue
        try:
            total += _fold_file(core, stat)
        except QuiverError as error:  # Of the store's own files: others get their turn.
            core.check()
            failure = failure or error
    if failure is not None:
        raise failure
    return total


def try_fold(core: Core) -> None:
    """Do the same; what the disk refuses is left for a tick: a full disk opens as well."""
    try:
        fold(core)
    except (CapacityError, StorageError) as error:
        core.check()
        core.events.begin("subscriber.fold_failed", error=error)
    else:
        core.events.end("subscriber.fold_failed")


def _fold_file(core: Core, stat: Stat) -> int:
    """Read one inbox and fold it in; 0 if it is refused, or was removed since it was listed."""
    try:
        inbox = _read(core, stat.name)
    except MissingError:
        return 0
    except (DamageError, VersionError, StorageError) as error:
        _refuse(core, stat.name, error)
        return 0
    if _is_nobodys(core, inbox):
        # A crash kept it from being removed; whoever writes it has to learn that it is over.
        forget_inbox(core, inbox)
        return 0
    try:
        total = _fold_one(core, inbox)
    except (InputError, SubscriberError) as error:  # It says what no subscriber can have done.
        _refuse(core, stat.name, error)
        return 0
    is_told = inbox.name not in core.registry or _tell(core, inbox)
    if is_told and _is_settled(core, stat, inbox):
        core.folded[stat.name] = stat.size, stat.modified_ns
    core.refused_inboxes.pop(stat.name, None)
    return total


def _tell(core: Core, inbox: Inbox) -> bool:
    """Have an inbox say whether its subscriber is paused; False: the next tick tries again."""
    return inbox.paused == core.registry.member(inbox.name).paused or tell_paused(core, inbox.name)


def _check_lease(core: Core, inbox: Inbox) -> None:
    known = core.registry.member(inbox.name).lease if inbox.name in core.registry else 0
    place = core.disk.locate(f"{inbox_folder(core.folder)}/{inbox.name}")
    check_lease(inbox, known, place=place)


def _is_settled(core: Core, stat: Stat, inbox: Inbox) -> bool:
    """Whether a file that looks the same has nothing new to tell."""
    told = [segment.segment_seq for segment in inbox.segments]
    told += [nack.segment_seq for nack in inbox.nacks]
    told += [letter.segment_seq for letter in inbox.dead_letters]
    ahead = max(told, default=-1) >= core.next_segment_seq
    age_ns = core.clock.wall_ns() - stat.modified_ns
    return not ahead and stat.modified_ns > 0 and age_ns > _FRESH_NS


def _refuse(core: Core, name: str, error: QuiverError) -> None:
    if name not in core.refused_inboxes:
        core.metrics.add("quiver.inbox.refused")
        core.events.warning("subscriber.inbox_refused", subscriber=name, error=error)
    core.refused_inboxes[name] = error


def take_over(core: Core, name: str) -> None:
    """Let only this process go on as a subscriber that another one was; folds in what that did.

    Raises LockedError if somebody is at the inbox. A damaged one is set aside.
    """
    if not has_inbox(core, name):
        return
    folder = inbox_folder(core.folder)
    with holding(core.disk, folder, name, seconds=0):
        try:
            inbox = _read(core, name)
        except DamageError as error:
            _set_aside(core, name, error)
            return
        _fold_one(core, inbox)
        member = core.registry.member(name)
        if name in core.own_leases:
            return
        sync_acks(core)  # Under a new lease the inbox counts no more: what it says is safe before.
        mine = Inbox(
            inbox.store_id,
            name,
            max(member.lease, inbox.lease) + 1,
            core.clock.wall_ns(),
            subscriber_id=member.subscriber_id,
        )
        # The file goes first: with ack.log alone the other would go on, and nobody would listen.
        write_inbox(core.disk, folder, mine)
        with core.whole():
            _raise_lease(core, member, mine.lease)
            sync_acks(core)
        core.own_leases.add(name)


def take_in(core: Core, name: str, *, lenient: bool = False) -> None:
    """Fold in an inbox that goes afterwards, durably; its lock is held.

    What nobody can believe is set aside. With ``lenient`` a full disk may leave some of it out.
    """
    try:
        _fold_one(core, _read(core, name))
    except CapacityError:
        if not lenient:
            raise
    except (DamageError, VersionError, InputError, SubscriberError) as error:
        _set_aside(core, name, error)
    sync_acks(core)


def _set_aside(core: Core, name: str, error: QuiverError) -> None:
    """Move an inbox to quarantine: what was done since it was last sound is delivered again."""
    set_aside(core.disk, core.folder, name, error=error)
    core.own_leases.discard(name)
    if core.refused_inboxes.pop(name, None) is None:
        core.metrics.add("quiver.inbox.refused")
    if isinstance(error, DamageError):
        core.report.damage.append(error)
        core.metrics.add("quiver.damage", label="acks")
    core.events.warning("subscriber.inbox_set_aside", subscriber=name, error=error)


def _read(core: Core, name: str) -> Inbox:
    """Read an inbox that may be believed."""
    folder = inbox_folder(core.folder)
    inbox = read_inbox(core.disk, folder, name, store_id=core.manifest.store_id)
    _check_lease(core, inbox)
    return inbox


def _is_nobodys(core: Core, inbox: Inbox) -> bool:
    """Whether it is of a subscriber who is gone, or started over."""
    if inbox.name not in core.registry:
        return inbox.subscriber_id != 0
    return inbox.subscriber_id not in (0, core.registry.member(inbox.name).subscriber_id)


def _fold_one(core: Core, inbox: Inbox) -> int:
    """Fold in one inbox, unless it is of a subscriber who is gone, or of an older lease."""
    if _is_nobodys(core, inbox):
        return 0  # What it still has to say is for nobody.
    if inbox.name not in core.registry:
        position = Position(inbox.start_segment_seq, inbox.start_bundle_index)
        lifecycle.register_at(core, inbox.name, position)
    member = core.registry.member(inbox.name)
    if inbox.lease < member.lease:
        return 0
    if inbox.lease > member.lease:
        core.own_leases.discard(inbox.name)
        with core.whole():
            _raise_lease(core, member, inbox.lease)
    total = _fold_runs(core, member, inbox)
    for letter in inbox.dead_letters:
        total += _fold_dead_letter(core, member, inbox.name, letter=letter)
    _fold_nacks(core, member, inbox)
    if total:
        core.announce()
    return total


def _raise_lease(core: Core, member: Member, lease: int) -> None:
    core.outlet.append([Lease(member.subscriber_id, lease, core.clock.wall_ns())])
    core.registry.replay_lease(member.subscriber_id, lease)
    name = core.registry.name_of(member.subscriber_id)
    core.events.info("subscriber.taken_over", subscriber=name, lease=lease)
    core.announce()


def _fold_runs(core: Core, member: Member, inbox: Inbox) -> int:
    """Ack what the inbox says was acked and is open here; some records at a time."""
    parts = [
        (segment.segment_seq, first, count)
        for segment in inbox.segments
        for run in segment.runs
        for first, count in member.progress.open_within(segment.segment_seq, *run)
    ]
    now, number = core.clock.wall_ns(), member.subscriber_id
    for some in _some(parts):
        with core.whole():
            core.outlet.append([Ack(number, *part, now, inbox.lease) for part in some])
            for segment_seq, first, count in some:
                core.registry.resolve(inbox.name, segment_seq, first, count=count)
        core.registry.replay_seen(number, now)
    return sum(count for _, _, count in parts)


def _some(parts: list[tuple[int, int, int]]) -> Iterator[list[tuple[int, int, int]]]:
    return (parts[at : at + _RECORDS_MAX] for at in range(0, len(parts), _RECORDS_MAX))


def _fold_nacks(core: Core, member: Member, inbox: Inbox) -> None:
    now = core.clock.wall_ns()
    records: list[Record] = []
    for nack in inbox.nacks:
        place = nack.segment_seq, nack.bundle_index
        known, _ = member.nacks.get(place, (0, 0))
        if nack.attempt > known and member.progress.open_within(*place, 1):
            due = nack.not_before_ns
            records.append(
                Nack(member.subscriber_id, *place, nack.attempt, due, now, nack.reason, inbox.lease)
            )
    with core.whole():
        core.outlet.append(records)
        for record in records:
            if isinstance(record, Nack):
                core.registry.replay_nack(
                    record.subscriber_id,
                    NackSnapshot(
                        record.segment_seq,
                        record.bundle_index,
                        record.attempt,
                        record.not_before_ns,
                        record.at_ns,
                    ),
                )


def _fold_dead_letter(core: Core, member: Member, name: str, *, letter: DeadLetterState) -> int:
    """Set aside what the other process gave up; gives how many bundles that resolves."""
    place = letter.segment_seq, letter.bundle_index
    if not member.progress.open_within(*place, 1):
        return 0
    claim = dataclasses.replace(core.registry.claim_at(name, *place), attempt=letter.attempt)
    outcome = DEAD_ATTEMPTS if letter.reason == DEAD_ATTEMPTS else DEAD_REJECTED
    try:
        delivery.read(core, claim)
    except (DamageError, MissingError) as error:
        delivery.set_aside(core, claim, error)
        return 0
    except BaseException:
        core.registry.release(claim)
        raise
    if letter.reason not in (DEAD_ATTEMPTS, DEAD_REJECTED):  # Damaged there, and sound here.
        core.registry.release(claim)
        return 0
    _give_up(core, claim, outcome, text=letter.text)
    return 1


def _give_up(core: Core, claim: Claim, outcome: int, *, text: str) -> None:
    try:
        delivery.give_up(core, claim, outcome, reason=text)
    except QuiverError:
        core.registry.release(claim)
        raise
