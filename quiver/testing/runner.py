"""Run a campaign on several processes, and sum it up."""

from __future__ import annotations

import importlib
import inspect
import multiprocessing
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import blake3

from quiver.errors import InputError
from quiver.testing.campaign import Campaign, Chapter, Failure, Plan
from quiver.testing.subject import Subject

__all__ = ["QUIVER", "Summary", "load_subject", "run"]

QUIVER: Final = "quiver.testing.oracle:subject"

_HINT: Final = (
    "name a function of a module that can be imported, package.module:function; it is given the "
    "seed and gives a quiver.testing.Subject"
)
_OF_A_SUBJECT: Final = ("lives", "live", "facts", "recover", "observe", "judge")
_AHEAD: Final = 2
"""Chapters that wait for each worker."""


@dataclass(slots=True)
class Summary:
    """What a campaign came to so far."""

    chapters: int = 0
    images: int = 0
    nested: int = 0
    faults: int = 0
    failures: list[Failure] = field(default_factory=list)
    _prints: set[int] = field(default_factory=set, repr=False)
    _sum: Any = field(default_factory=blake3.blake3, repr=False)

    @property
    def distinct(self) -> int:
        """Different trees of files; an image also counts what was promised when it arose."""
        return len(self._prints)

    @property
    def digest(self) -> str:
        """The same for equal plans over equal code, on every machine."""
        text: str = self._sum.hexdigest(16)
        return text

    def add(self, chapter: Chapter) -> None:
        """Take in the next chapter; the order counts for the digest."""
        self.chapters += 1
        self.images += chapter.images
        self.nested += chapter.nested
        self.faults += chapter.faults
        self._prints |= chapter.prints
        self._sum.update(chapter.digest)
        if chapter.failure is not None:
            self.failures.append(chapter.failure)


def load_subject(name: str, seed: int) -> Subject:
    """Make the subject that ``module:function`` names; the function is given the seed."""
    module, _, function = name.partition(":")
    try:
        make = getattr(importlib.import_module(module), function)
        inspect.signature(make).bind(seed)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise InputError(f"there is no subject {name!r}: {error}", hint=_HINT) from error
    made = make(seed)
    if missing := [each for each in _OF_A_SUBJECT if not hasattr(made, each)]:
        text = f"{name!r} gave no subject: what it gave has no {missing[0]}"
        raise InputError(text, hint=_HINT)
    subject: Subject = made
    return subject


def run(
    subject: str,
    plan: Plan,
    *,
    images: int,
    workers: int = 1,
    told: Callable[[Chapter], None] | None = None,
) -> Summary:
    """Tell chapters in order until ``images`` images were judged or one chapter fails.

    The result does not depend on the number of workers. ``told`` is called with each chapter.
    """
    summary = Summary()
    campaign = Campaign(load_subject(subject, plan.seed), plan)
    chapters = campaign.run() if workers == 1 else _parallel(subject, campaign, workers)
    for chapter in chapters:
        summary.add(chapter)
        if told is not None:
            told(chapter)
        if summary.images >= images or chapter.failure is not None:
            break
    return summary


def _parallel(subject: str, campaign: Campaign, workers: int) -> Iterator[Chapter]:
    context = multiprocessing.get_context("spawn")
    waiting: deque[Future[Chapter]] = deque()
    left = iter(campaign.subject.lives)
    with ProcessPoolExecutor(
        workers, context, initializer=_start, initargs=(subject, campaign.plan)
    ) as pool:
        try:
            waiting.extend(pool.submit(_tell, life) for life in islice(left, workers * _AHEAD))
            while waiting:
                chapter = waiting.popleft().result()
                waiting.extend(pool.submit(_tell, life) for life in islice(left, 1))
                yield chapter
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


_campaign: Campaign
"""The campaign of a worker process."""


def _start(subject: str, plan: Plan) -> None:
    global _campaign  # noqa: PLW0603 (each worker process has one)
    _campaign = Campaign(load_subject(subject, plan.seed), plan)


def _tell(life: str) -> Chapter:
    return _campaign.tell(life)
