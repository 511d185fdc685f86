"""Lives of a store whose subscribers have bundles before there is a segment of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from quiver.engine import forgoing, sealed
from quiver.engine.fold import fold
from quiver.testing.rehearsal import Rehearsal

__all__ = ["FORGOING", "FORGOING_CONFIGS"]


def _have(life: Rehearsal, subscriber: str, numbers: range) -> None:
    """Let a subscriber say that it has these."""
    for number in numbers:
        life.stage.mark("acked", subscriber=subscriber, number=number)
    life.store.ack_early(subscriber, list(numbers))


def _forgo(life: Rehearsal, meanwhile: Callable[[], object] | None = None) -> None:
    """Seal what is open, and do without its file if everybody has it, as the scribe does.

    ``meanwhile`` is what others do while those are waited for who do not have all.
    """
    acts = [] if meanwhile is None else [meanwhile]

    def is_over() -> bool:
        if not acts:
            return True
        acts.pop()()
        return False

    core = life.store._core
    with core.lock:
        if core.sealed is None:
            with core.whole():
                sealed.seal(core)
        segment_seq = core.next_segment_seq
        names = life.store.info().subscribers
        content = () if core.sealed is None else core.sealed.content.bundles
        numbers = tuple(bundle.wal_seq for bundle in content)
        if not forgoing.forgo(core, is_over=is_over, fold=fold):
            return
        sealed.try_reclaim(core)
    life.stage.mark("finalized", segment_seq=segment_seq)
    for name in names:
        life.stage.mark("settled", subscriber=name, numbers=numbers)


def have_all_early(life: Rehearsal) -> None:
    """Have everything before its segment, again and again, over restarts."""
    life.register("a", "b")
    for turn in range(4):
        first = life.sent
        life.survive(lambda: life.append(3))
        for name in "ab":
            life.survive(lambda n=name, f=first: _have(life, n, range(f, life.sent)))  # type: ignore[misc]
        life.survive(lambda: _forgo(life))
        life.survive(life.maintain)
        if turn % 2:
            life.crash()
            life.open()
    life.survive(lambda: life.append(2))
    life.survive(lambda: life.take("a"))
    life.survive(life.close)


def have_some_early(life: Rehearsal) -> None:
    """Have some of it: a segment is made, and what was had does not come out of that."""
    life.register("a", "b")
    for _ in range(3):
        first = life.sent
        life.survive(lambda: life.append(4))
        life.survive(lambda f=first: _have(life, "a", range(f, life.sent)))  # type: ignore[misc]
        life.survive(lambda f=first: _have(life, "b", range(f, f + 2)))  # type: ignore[misc]
        life.survive(lambda: _forgo(life))
        life.survive(life.finalize)
        life.survive(lambda: life.take("b", 1))
        life.survive(life.maintain)
    life.crash()
    life.open()
    life.survive(lambda: life.take("b"))
    life.survive(life.maintain)


def come_meanwhile(life: Rehearsal) -> None:
    """Come before a segment is forgone, in another process, and while it is waited for."""
    life.register("a")
    first = life.sent
    life.survive(lambda: life.append(3))
    life.survive(lambda: life.beside("c", 0))
    life.survive(lambda: _have(life, "a", range(first, life.sent)))
    life.survive(lambda: _forgo(life))
    life.survive(life.finalize)
    life.survive(life.maintain)
    for name in "ac":
        life.survive(lambda n=name: life.take(n))  # type: ignore[misc]
    start = life.sent
    life.survive(lambda: life.append(3))
    for name in "ac":
        life.survive(lambda n=name: _have(life, n, range(start, start + 2)))  # type: ignore[misc]

    def come() -> None:
        life.register("d")
        for name in "ac":
            _have(life, name, range(start + 2, life.sent))

    life.survive(lambda: _forgo(life, come))
    life.survive(life.finalize)
    life.survive(life.maintain)
    for name in "acd":
        life.survive(lambda n=name: life.take(n))  # type: ignore[misc]
    life.survive(life.maintain)


FORGOING: Final[Mapping[str, Callable[[Rehearsal], None]]] = {
    "have all early": have_all_early,
    "have some early": have_some_early,
    "come meanwhile": come_meanwhile,
}
_LOG: Final = {"rotate_size": 3000, "reclaim_size": 1, "max_size": 100_000}
_SIZES: Final = (("have all early", 640), ("have some early", 100_000), ("come meanwhile", 100_000))
FORGOING_CONFIGS: Final[Mapping[str, Mapping[str, Any]]] = {
    name: {"wal": _LOG, "acks": {"max_size": size}, "limits": {"entry_bytes": 50_000}}
    for name, size in _SIZES
}
