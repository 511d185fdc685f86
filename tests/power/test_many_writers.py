"""Four writers in one store, any of which is killed or stopped at any time.

``QUIVER_WRITER_KILLS`` says how many are killed; the default is quick.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from writers import write

import quiver

KILLS = int(os.environ.get("QUIVER_WRITER_KILLS", "6"))
PATIENCE = 60
SPAWN = multiprocessing.get_context("forkserver")
SMALL: dict[str, Any] = {
    "wal": {"max_size": "2MiB", "rotate_size": "256KiB"},
    "segment": {"target_size": "256KiB"},
    "limits": {"entry_bytes": "1MiB"},
}


class Writer:
    """A process that appends, and what it has told."""

    def __init__(self, path: Path, number: int, *, size: int, config: dict[str, Any]) -> None:
        self.number = number
        self.acknowledged = -1
        self.ear, mouth = SPAWN.Pipe(duplex=False)
        options = {"writer": number, "size": size, "config": config}
        self.process = SPAWN.Process(target=write, args=(str(path), mouth), kwargs=options)
        self.process.start()
        mouth.close()
        assert self.ear.poll(PATIENCE)
        self.core = int(self.ear.recv_bytes())

    def hear(self, count: int) -> None:
        """Listen until so many more bundles are safe."""
        for _ in range(1000 * count):
            if count == 0:
                return
            assert self.ear.poll(PATIENCE)
            count -= self._note(self.ear.recv_bytes())
        raise AssertionError("it never gets on")

    def _note(self, word: bytes) -> bool:
        if word == b"full":
            return False
        self.acknowledged = int(word)
        return True

    def drain(self) -> int:
        """Hear what is there to be heard; give how many bundles that is."""
        heard = 0
        try:
            while self.ear.poll(0):
                heard += self._note(self.ear.recv_bytes())
        except EOFError:
            pass
        return heard

    def kill(self) -> None:
        self.process.kill()
        self.process.join(PATIENCE)
        self.drain()
        self.ear.close()
        self.process.close()


@pytest.fixture
def writers(tmp_path: Path) -> Iterator[Any]:
    """Start a writer of the store of this test, a number each; all are dead at the end."""
    SPAWN.set_forkserver_preload(["pyarrow", "quiver.engine", "writers"])
    made: list[Writer] = []

    def start(size: int = 1000, **config: Any) -> Writer:
        made.append(Writer(tmp_path / "store", len(made), size=size, config=SMALL | config))
        return made[-1]

    start.made = made  # type: ignore[attr-defined]
    yield start
    for writer in made:
        try:
            writer.kill()
        except ValueError:
            continue  # It was killed before.


def check_whole(path: Path, made: list[Writer]) -> None:
    """See that all that was acknowledged is there, once, and what more there is likewise."""
    quiver.adopt(path)
    rows = quiver.scan(path, slot="events").to_table().select(["writer", "n"]).to_pylist()
    found = Counter((row["writer"], row["n"]) for row in rows)
    assert set(found.values()) <= {1}
    for writer in made:
        wanted = {(writer.number, n) for n in range(writer.acknowledged + 1)}
        there = {pair for pair in found if pair[0] == writer.number}
        assert wanted <= there
        # At most the one that was not told yet.
        assert len(there - wanted) <= 1


@pytest.mark.slow
def test_whoever_of_four_is_killed_all_that_was_acknowledged_is_there_once(
    writers: Any, tmp_path: Path
) -> None:
    lot = random.Random(KILLS)
    four = [writers(lot.choice([100, 20_000])) for _ in range(4)]
    assert sorted(writer.core for writer in four) == [0, 1, 2, 3]
    for _ in range(KILLS):
        for writer in four:
            writer.drain()
        place = lot.randrange(4)
        four[place].hear(lot.randint(1, 60))
        four[place].kill()
        core = four[place].core
        four[place] = writers(lot.choice([100, 20_000]))
        assert four[place].core == core
    for writer in four:
        writer.kill()
    check_whole(tmp_path / "store", writers.made)


def test_fewer_after_a_restart_strand_nothing(writers: Any, tmp_path: Path) -> None:
    path = tmp_path / "store"
    for _ in range(4):
        writers().hear(30)
    for writer in writers.made:
        writer.kill()
    with quiver.open(path, config=SMALL) as store, quiver.subscribe(path, "reader") as consumer:
        assert store.info().core == 0
        quiver.adopt(path)
        store.finalize()
        got: Counter[tuple[int, int]] = Counter()
        # Others may be there too: those that were durable, and their writer not told yet.
        wanted = {(w.number, n) for w in writers.made for n in range(w.acknowledged + 1)}
        while not wanted <= got.keys():
            run = consumer.next_run(timeout=PATIENCE)
            assert run is not None
            with run:
                table = run.table("events")
                got.update(zip(table["writer"].to_pylist(), table["n"].to_pylist(), strict=True))
        assert set(got.values()) == {1}


@pytest.mark.parametrize("coordination", ["static", "shared"])
def test_nobody_waits_for_one_that_is_stopped(
    writers: Any, tmp_path: Path, coordination: str
) -> None:
    retention = {"size_cap": "64MiB", "coordination": coordination}
    four = [writers(2000, retention=retention) for _ in range(4)]
    stopped = four[1]
    for _ in range(5):
        stopped.hear(7)
        os.kill(stopped.process.pid, signal.SIGSTOP)
        for writer in four:
            writer.drain()
        for writer in four:
            if writer is not stopped:
                writer.hear(100)
        assert stopped.drain() == 0
        os.kill(stopped.process.pid, signal.SIGCONT)
    stopped.hear(50)
    for writer in four:
        writer.kill()
    check_whole(tmp_path / "store", writers.made)


def test_a_shared_cap_holds_and_goes_to_who_needs_it(writers: Any, tmp_path: Path) -> None:
    cap, target = 24 << 20, 256 << 10
    retention = {"size_cap": cap, "coordination": "shared"}
    path = tmp_path / "store"
    hot = writers(50_000, retention=retention)
    idle = [writers(100, retention=retention) for _ in range(3)]
    for writer in idle:
        os.kill(writer.process.pid, signal.SIGSTOP)
    hot.hear(1 + (cap // 2) // 50_000)  # More than any even part.
    heard = 0
    for _ in range(200_000):
        assert hot.ear.poll(PATIENCE)
        if hot.ear.recv_bytes() == b"full":
            heard += 1
            if heard > 200:
                break
    assert heard > 200
    used = sum(file.stat().st_blocks * 512 for file in path.rglob("*") if file.is_file())
    assert used <= cap + 4 * 2 * target
    assert used > cap // 2
