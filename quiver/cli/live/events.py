"""What happened between two looks at a store, as far as the difference between them tells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from quiver.cli.live.look import CoreLook, Look
from quiver.cli.output import count
from quiver.units import format_bytes

__all__ = ["Event", "Kind", "events_between", "first_events"]

Kind: TypeAlias = Literal["store", "core", "writer", "segment", "subscriber", "damage"]


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened not long before ``at_ns``; ``core`` None is the store itself.

    The text may hold names that others chose: make it printable before it is shown.
    """

    at_ns: int
    core: int | None
    kind: Kind
    text: str


def first_events(look: Look) -> list[Event]:
    """Give what the first look has to tell: what is wrong already."""
    return [_event(look, "damage", core=core, text=text) for core, text in look.faults]


def events_between(before: Look, after: Look) -> list[Event]:
    """Give what happened from one look to the next, in the order of the flow."""
    if after.problem is not None:
        if before.problem == after.problem:
            return []
        return [_event(after, "store", text=after.problem)]
    if before.problem is not None:
        return [_event(after, "store", text="the store is there again"), *first_events(after)]
    if before.store_id != after.store_id and None not in (before.store_id, after.store_id):
        return [_event(after, "store", text="another store is there now"), *first_events(after)]
    found: list[Event] = []
    for core in after.cores:
        known = before.core(core.core)
        if known is None:
            found.append(_event(after, "core", core=core.core, text=f"core {core.core} appeared"))
            found += _told(after, core, CoreLook(core.core, segments=core.segments))
        else:
            found += _told(after, core, known)
    for core in before.cores:
        if after.core(core.core) is None:
            found.append(_event(after, "core", core=core.core, text=f"core {core.core} is gone"))
    return found


def _event(look: Look, kind: Kind, *, text: str, core: int | None = None) -> Event:
    return Event(look.at_ns, core, kind, text)


def _told(look: Look, after: CoreLook, before: CoreLook) -> list[Event]:
    if after.problem is not None:
        new = after.problem != before.problem
        return [_event(look, "damage", core=after.core, text=after.problem)] if new else []
    texts: list[tuple[Kind, str]] = [("writer", text) for text in _of_writer(before, after)]
    texts += [("segment", text) for text in _of_segments(before, after)]
    texts += [("subscriber", text) for text in _of_subscribers(before, after)]
    texts += [("damage", text) for text in _of_damage(before, after)]
    return [_event(look, kind, core=after.core, text=text) for kind, text in texts]


def _of_writer(before: CoreLook, after: CoreLook) -> Iterator[str]:
    old, new = before.writer, after.writer
    if new.is_there is None or old == new:
        return
    if old.is_there and new.is_there and new.pid != old.pid:
        yield f"process {new.pid} writes instead of {old.pid}"
    elif new.is_there and not old.is_there:
        yield f"process {new.pid} began to write"
    elif old.is_there and not new.is_there:
        yield f"process {old.pid} writes no more"


def _of_segments(before: CoreLook, after: CoreLook) -> Iterator[str]:
    """Tell what came and what went; what came and went in between is known by its number alone."""
    fresh = range(before.next_segment_seq, after.next_segment_seq)
    came = [seq for seq in fresh if seq in after.segments] if before.next_segment_seq else []
    missed = len(fresh) - len(came) if before.next_segment_seq else 0
    if not before.next_segment_seq:  # The first one of all, or of a core that just appeared.
        came = sorted(after.segments.keys() - before.segments.keys())
    if came:
        yield f"{_named(came)} finalized: {_size(after, came)}"
    if missed:
        yield f"{count(missed, 'segment')} finalized and deleted since the last look"
    gone = sorted(before.segments.keys() - after.segments.keys())
    if gone:
        yield f"{_named(gone)} deleted: {_size(before, gone)}"
    back = [s for s in after.segments if s not in before.segments and s < before.next_segment_seq]
    if back:
        yield f"{_named(sorted(back))} came back: {_size(after, back)}"


def _of_subscribers(before: CoreLook, after: CoreLook) -> Iterator[str]:
    old = {each.name: each for each in before.subscribers}
    new = {each.name: each for each in after.subscribers}
    for name, each in new.items():
        known = old.get(name)
        if known is None:
            yield f"subscriber {name} came"
        elif known.is_paused != each.is_paused:
            yield f"subscriber {name} {'was paused' if each.is_paused else 'goes on'}"
        given_up = each.dead_letter_count - (known.dead_letter_count if known else 0)
        if given_up > 0:
            yield f"subscriber {name} gave up {count(given_up, 'bundle')}"
    yield from (f"subscriber {name} went" for name in old if name not in new)


def _of_damage(before: CoreLook, after: CoreLook) -> Iterator[str]:
    more = after.quarantine_bytes - before.quarantine_bytes
    if more > 0:
        yield f"damage was set aside: {format_bytes(more)} more in quarantine"
    yield from _new(before.damage, after.damage)


def _new(before: Iterable[str], after: Iterable[str]) -> Iterator[str]:
    known = set(before)
    return (text for text in after if text not in known)


def _named(seqs: list[int]) -> str:
    if len(seqs) == 1:
        return f"segment {seqs[0]:,}"
    return f"{len(seqs):,} segments, {seqs[0]:,} to {seqs[-1]:,},"


def _size(core: CoreLook, seqs: Iterable[int]) -> str:
    sizes = [core.segments[seq] for seq in seqs]
    bundles = count(sum(size.bundle_count for size in sizes), "bundle")
    return f"{bundles}, {format_bytes(sum(size.byte_count for size in sizes))}"
