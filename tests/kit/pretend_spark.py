"""What Spark does with a streaming source, step by step, so that it can be killed at each."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spark_queue_kit import taken

BATCHES_MAX = 40


class Killed(BaseException):
    """The process is gone."""


class PretendSpark:
    """A checkpoint and a sink that outlive processes; the sink keeps each batch once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sink: dict[int, list[Any]] = {}
        self.steps = 0
        self.kill_at: int | None = None
        for name in ("offsets", "commits"):
            (folder / name).mkdir(parents=True)

    def step(self) -> None:
        """Go on, unless this is where the process ends."""
        self.steps += 1
        if self.steps == self.kill_at:
            raise Killed

    def numbers(self, name: str) -> list[int]:
        return sorted(int(path.name) for path in (self.folder / name).iterdir())

    def offset(self, batch: int) -> Any:
        return json.loads((self.folder / "offsets" / str(batch)).read_text().split("\n")[2])

    def live(self, make: Callable[[], Any]) -> None:
        """Be one process, until there is nothing new."""
        driver = make()
        self.step()
        is_planned_here = False
        for _ in range(BATCHES_MAX):
            offsets, commits = self.numbers("offsets"), self.numbers("commits")
            newest = offsets[-1] if offsets else -1
            if offsets and newest not in commits:
                begin = self.offset(newest - 1) if newest else driver.initial()
                end = self.offset(newest)
            else:
                begin = self.offset(newest) if offsets else driver.initial()
                self.step()
                end = driver.latest(begin, is_limited=True)
                self.step()
                if offsets and json.dumps(end) == json.dumps(begin):
                    return  # A first batch is done also if there is nothing in it.
                newest += 1
                text = f"v1\n{{}}\n{json.dumps(end)}"
                (self.folder / "offsets" / str(newest)).write_text(text)
                self.step()
                if is_planned_here:
                    driver.commit(begin)
                    self.step()
            is_planned_here = True
            rows = taken(driver, begin, end)
            self.step()
            self.sink[newest] = rows
            self.step()
            (self.folder / "commits" / str(newest)).write_text("v1\n{}")
            self.step()
        raise AssertionError("it never ends")

    @property
    def rows(self) -> list[Any]:
        return [row for batch in sorted(self.sink) for row in self.sink[batch]]
