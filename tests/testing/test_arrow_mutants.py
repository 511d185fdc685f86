"""No bytes that claim to be Arrow kill whoever reads them through ``quiver.ipc``.

``QUIVER_ARROW_MUTANTS`` sets how many are tried.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress

import pyarrow as pa
import pytest

from quiver import ipc, ipc_file
from quiver.config import LimitsConfig
from quiver.errors import InputError
from quiver.testing.arrow_mutants import arrow_mutants
from quiver.testing.arrow_zoo import zoo
from quiver.testing.children import Tally, run_in_children

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

COUNT = int(os.environ.get("QUIVER_ARROW_MUTANTS", "2000"))
MEMORY = 2 << 30
SECONDS = 20
LIMITS = LimitsConfig(rows=100_000, columns=200, decoded_bytes=1 << 20)
CHUNKS_MAX = 20
DEATHS = 0.02
"""The least share of mutants of plain data that kills who reads them unchecked: of 3,000 4.6 %."""


def mutants(count: int, *, only: Callable[[str], bool] = bool) -> Iterator[bytes]:
    """Change the animals in turn, so that each has its share."""
    seeds = [data for name, data in zoo().items() if only(name)]
    each = -(-count // len(seeds))
    herds = [arrow_mutants(data, seed=n, count=each) for n, data in enumerate(seeds)]
    for _ in range(each):
        for herd in herds:
            yield next(herd)


def read(data: bytes) -> None:
    """Decode all there is, and use every value of it as a program would."""
    if not data.startswith(b"ARROW1"):
        use(ipc.decode_stream(data, limits=LIMITS))
        return
    file = ipc_file.ArrowFile(data, limits=LIMITS)
    for index in range(min(file.chunk_count, CHUNKS_MAX)):
        use(file.chunk(index))


def read_whole(data: bytes) -> None:
    """Decode all chunks of a file together, which is checked in other ways."""
    table = ipc_file.ArrowFile(data, limits=LIMITS).table()
    table.validate(full=True)
    for batch in table.to_batches()[:CHUNKS_MAX]:
        use(batch)


def use(batch: pa.RecordBatch) -> None:
    ipc.encode_stream(batch)
    for column in batch.columns:
        str(column)
        # Years, numbers and time zones that Python does not know are no damage.
        with suppress(ValueError, ArithmeticError, LookupError, pa.ArrowException):
            column.to_pylist()


def unchecked(data: bytes) -> None:
    """Read without Arrow's full validation; only used in children."""
    ipc.check_batch = ipc_file.check_batch = lambda batch, rows, limits: None
    read(data)


def told(tally: Tally) -> str:
    raised = "\n".join(text for _, text in tally.raised[:3])
    return f"{tally.signals()} {[data.hex() for data, _ in tally.killed[:1]]}\n{raised}"


def test_every_animal_is_read_and_comes_back_equal() -> None:
    animals = zoo()
    assert len(animals) > 60
    for data in animals.values():
        read(data)
    tally = run_in_children(animals.values(), read, memory=MEMORY, seconds=SECONDS)
    assert tally == Tally(passed=len(animals))


@pytest.mark.timeout(3600)
def test_mutants_are_refused_by_name_or_read_and_kill_nobody() -> None:
    tally = run_in_children(mutants(COUNT), read, memory=MEMORY, seconds=SECONDS)
    assert not tally.killed, told(tally)
    assert not tally.raised, told(tally)
    assert tally.total >= COUNT
    # Both happen: what is changed is neither always found at once nor never found.
    assert tally.refused > tally.total // 4
    assert tally.passed > tally.total // 20


@pytest.mark.timeout(3600)
def test_mutants_of_files_that_are_read_whole_kill_nobody() -> None:
    files = mutants(COUNT // 3, only=lambda name: name.endswith(".file"))
    tally = run_in_children(files, read_whole, memory=MEMORY, seconds=SECONDS)
    assert not tally.killed, told(tally)
    assert not tally.raised, told(tally)
    assert tally.refused > tally.total // 4
    assert tally.passed > tally.total // 20


def test_the_mutants_kill_whoever_does_not_check() -> None:
    plain = mutants(500, only=lambda name: name.count(".") == 1)
    tally = run_in_children(plain, unchecked, memory=MEMORY, seconds=SECONDS)
    assert len(tally.killed) > DEATHS * tally.total, told(tally)
    assert "SIGSEGV" in tally.signals()


def test_equal_seeds_give_equal_mutants_that_differ_from_each_other() -> None:
    data = zoo()["every.stream"]
    first, second = (list(arrow_mutants(data, seed=1, count=200)) for _ in range(2))
    assert first == second
    assert list(arrow_mutants(data, seed=2, count=200)) != first
    assert len({data, *first}) > 180


def test_messages_are_swapped_repeated_and_removed() -> None:
    data = zoo()["dictionaries.stream"]
    sizes = {len(mutant) - len(data) for mutant in arrow_mutants(data, seed=0, count=400)}
    assert min(sizes) < 0 < max(sizes)


def ends(data: bytes) -> None:
    match data:
        case b"refused":
            raise InputError("no")
        case b"raised":
            raise IndexError("what")
        case b"killed":
            os.kill(os.getpid(), signal.SIGSEGV)
        case b"slow":
            while True:
                pass
        case b"large":
            bytearray(2 * MEMORY)


def test_each_way_to_end_is_counted_and_the_rest_still_run() -> None:
    inputs = [b"fine", b"killed", b"refused", b"raised", b"fine", b"large", b"slow", b"fine"]
    tally = run_in_children(inputs, ends, memory=MEMORY, seconds=0.2)
    assert (tally.passed, tally.refused, tally.total) == (3, 1, len(inputs))
    assert [(data, number.name) for data, number in tally.killed] == [
        (b"killed", "SIGSEGV"),
        (b"slow", "SIGALRM"),
    ]
    assert [data for data, _ in tally.raised] == [b"raised", b"large"]
    assert "IndexError: what" in tally.raised[0][1]
    assert "MemoryError" in tally.raised[1][1]


def test_a_child_that_stands_still_by_chance_costs_nothing(tmp_path) -> None:
    def stand_still_once(data: bytes) -> None:
        if data.startswith(b"by chance") and not (tmp_path / data.hex()).exists():
            (tmp_path / data.hex()).touch()
            signal.pause()

    inputs = [b"fine", b"by chance 1", b"fine", b"by chance 2", b"by chance 3"]
    tally = run_in_children(inputs, stand_still_once, memory=MEMORY, seconds=0.2)
    assert tally == Tally(passed=len(inputs))


class Standing:
    """Children of some forks that stand still before they are given back to who forked them."""

    def __init__(self) -> None:
        self.left = 0
        os.register_at_fork(before=self.count, after_in_child=self.stand)

    def count(self) -> None:
        self.left -= 1

    def stand(self) -> None:
        if self.left >= 0:
            signal.pause()


STANDING = Standing()


@pytest.mark.parametrize(("children", "killed"), [(1, 0), (2, 1)])
def test_a_child_that_never_begins_is_tried_again_once(monkeypatch, children, killed):
    monkeypatch.setattr("quiver.testing.children._BEGIN_SECONDS", 0.2)
    STANDING.left = children
    try:
        tally = run_in_children([b"a", b"b"], lambda _: None, memory=MEMORY, seconds=SECONDS)
    finally:
        STANDING.left = 0
    assert (tally.total, len(tally.killed)) == (2, killed)
    assert tally.passed == 2 - killed
