"""What every place of a chain's metadata has to keep, as tests: inherit them.

::

    class TestMine(MetadataConformance):
        @pytest.fixture
        def opened(self, tmp_path):
            return lambda path="": MyMetadata(tmp_path, path)

``opened`` opens a path of one place that is empty at the start of each test; each call may give
another object.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final, Protocol

from quiver.chain.metadata import DATA_BYTES_MAX, Metadata, swap
from quiver.errors import InputError, MissingError
from quiver.ship.objects import Conflict
from quiver.testing.manual_clock import ManualClock

__all__ = ["MetadataConformance", "Opened", "Step", "check_steps", "step_up"]

_THREADS: Final = 4
_STEPS: Final = 5
_TRIES_MAX: Final = 10_000


class Opened(Protocol):
    """Opens a path of the place that the test has."""

    def __call__(self, path: str = "") -> Metadata:
        """Open it."""
        ...


def _check(holds: object, what: str) -> None:
    """Fail a test, also where asserts are left out."""
    if not holds:
        raise AssertionError(what)


def _refused(kind: type[Exception], act: Callable[[], object], what: str) -> None:
    try:
        act()
    except kind:
        return
    raise AssertionError(f"{what}: no {kind.__name__}")


@dataclass(frozen=True, slots=True)
class Step:
    """What was put in the place of what, each but once; not known to be done if it was put over."""

    was: bytes
    data: bytes
    is_known_done: bool


def step_up(metadata: Metadata, key: str, who: str, *, steps: int) -> list[Step]:
    """Add one to the number in an object so many times, against all who do so; gives all tries."""
    tries: list[Step] = []
    clock = ManualClock()
    left = steps
    while left:
        if len(tries) > _TRIES_MAX:
            raise AssertionError(f"{_TRIES_MAX:,} tries for {steps} steps")
        was = metadata.get(key)
        number = int(was.data.partition(b" ")[0]) + 1
        data = f"{number} {who}.{len(tries)}".encode()
        is_done = swap(metadata, key, was, data=data, clock=clock)
        tries.append(Step(was.data, data, is_done))
        left -= is_done
    return tries


def check_steps(first: bytes, last: bytes, tries: Iterable[Step]) -> None:
    """Go back from the last state to the first; each step that is known to be done is on the way.

    So are steps of those who were told otherwise: that a put was done is not known to who had no
    answer, if the next one was put over it before it was asked for.
    """
    made = {step.data: step for step in tries}
    way = set()
    state = last
    while state != first:
        _check(state in made, f"{state!r} was put by nobody")
        way.add(state)
        state = made[state].was
    lost = [step for step in made.values() if step.is_known_done and step.data not in way]
    _check(not lost, f"done, and not on the way to {last!r}: {lost}")


class MetadataConformance:
    """Tests of one kind of place; ``opened`` is a fixture."""

    many = 1100
    """More keys than a place lists at once."""

    def test_what_is_put_is_read_by_all(self, opened: Opened) -> None:
        metadata = opened()
        for size in (0, 1, 3, 70_000, DATA_BYTES_MAX):
            data = bytes(range(256)) * (size // 256) + bytes(size % 256)
            revision = metadata.cas(f"a/{size}", None, data)
            kept = opened().get(f"a/{size}")
            _check(kept.data == data, f"{size:,} bytes came back otherwise")
            _check(kept.revision == revision, f"{size:,} bytes: two revisions of one state")
            _check(opened().peek(f"a/{size}") == data, f"{size:,} bytes are peeked at otherwise")

    def test_too_much_is_refused(self, opened: Opened) -> None:
        metadata = opened()
        _refused(InputError, lambda: metadata.cas("x", None, bytes(DATA_BYTES_MAX + 1)), "too much")
        _check(metadata.keys("") == [], "a refused put made an object")

    def test_what_is_not_there_is_missing(self, opened: Opened) -> None:
        metadata = opened("q")
        metadata.cas("here", None, b"1")
        for key in ("gone", "her", "here2", "folder/gone"):
            _refused(MissingError, partial(metadata.get, key), key)
            _refused(MissingError, partial(metadata.peek, key), key)

    def test_create_does_not_replace(self, opened: Opened) -> None:
        metadata = opened()
        revision = metadata.cas("x", None, b"1")
        _refused(Conflict, lambda: opened().cas("x", None, b"2"), "created twice")
        kept = metadata.get("x")
        _check((kept.data, kept.revision) == (b"1", revision), "a refused cas changed the object")

    def test_replace_takes_the_last_revision_alone(self, opened: Opened) -> None:
        metadata = opened()
        revisions = [metadata.cas("x", None, b"0")]
        for number in range(1, 4):
            revisions.append(metadata.cas("x", revisions[-1], b"%d" % number))
        last = revisions.pop()
        _check(len({last, *revisions}) == len(revisions) + 1, "two states have one revision")
        for old in revisions:
            _refused(Conflict, partial(metadata.cas, "x", old, b"9"), "an old revision")
        metadata.cas("x", last, b"4")
        _check(metadata.get("x").data == b"4", "the last revision")

    def test_replace_does_not_create(self, opened: Opened) -> None:
        metadata = opened()
        revision = metadata.cas("x", None, b"1")
        metadata.delete("x")
        for key in ("x", "y"):
            _refused(Conflict, partial(metadata.cas, key, revision, b"2"), key)
        _check(metadata.keys("") == [], "a refused cas made an object")

    def test_what_is_deleted_is_gone_and_may_come_again(self, opened: Opened) -> None:
        metadata = opened()
        old = metadata.cas("a/x", None, b"1")
        metadata.delete("a/x")
        metadata.delete("a/x")
        metadata.delete("never")
        _refused(MissingError, lambda: metadata.get("a/x"), "read")
        metadata.cas("a/x", None, b"2")
        _refused(Conflict, lambda: metadata.cas("a/x", old, b"3"), "a revision from before")

    def test_keys_begin_with_the_prefix_and_come_sorted(self, opened: Opened) -> None:
        metadata = opened("q")
        opened("q2").cas("a", None, b"elsewhere")
        keys = ("ab", "a/2/3", "a/1", "b", "a/10", "ä/ö", "a b")
        for key in keys:
            metadata.cas(key, None, b"1")
        for prefix in ("", "a", "a/", "a/1", "a/2/", "b", "c", "ä"):
            wanted = sorted(key for key in keys if key.startswith(prefix))
            _check(metadata.keys(prefix) == wanted, f"prefix {prefix!r}")

    def test_a_long_listing_is_whole(self, opened: Opened) -> None:
        metadata = opened("q")
        keys = [f"{number:04}" for number in range(self.many)]
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(lambda key: metadata.cas(key, None, b"1"), keys))
        _check(metadata.keys("") == keys, "listed")

    def test_what_is_no_key_is_refused(self, opened: Opened) -> None:
        metadata = opened("q")
        for key in ("", "a//b", "../a", "a/", "a\nb", "x" * 1100):
            _refused(InputError, partial(metadata.get, key), repr(key))
            _refused(InputError, partial(metadata.cas, key, None, b""), repr(key))
            _refused(InputError, partial(metadata.delete, key), repr(key))

    def test_each_step_of_a_race_is_made_by_one(self, opened: Opened) -> None:
        opened().cas("count", None, b"0 nobody")
        barrier = threading.Barrier(_THREADS)

        def run(number: int) -> list[Step]:
            barrier.wait(timeout=60)
            return step_up(opened(), "count", f"t{number}", steps=_STEPS)

        with ThreadPoolExecutor(_THREADS) as pool:
            tries = list(chain.from_iterable(pool.map(run, range(_THREADS))))
        done = sum(step.is_known_done for step in tries)
        _check(done == _THREADS * _STEPS, f"{done} steps")
        check_steps(b"0 nobody", opened().get("count").data, tries)
