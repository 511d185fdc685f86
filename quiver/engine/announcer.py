"""Who wants to hear of each finalized segment, and what they were not told yet."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from quiver.errors import ClosedError
from quiver.segment import SegmentInfo

__all__ = ["Announcer"]


class Announcer:
    """Functions that are called with each finalized segment, in order, without the store's lock.

    It is a job for the worker: whoever registers a segment notes it, and the worker tells of it.
    """

    def __init__(self) -> None:
        self._callbacks: dict[int, Callable[[SegmentInfo], object]] = {}
        self._next = 0
        self._waiting: deque[SegmentInfo] = deque()
        self._telling = threading.Lock()

    def add(self, callback: Callable[[SegmentInfo], object]) -> Callable[[], None]:
        """Tell this one too, from the next segment on; what is given takes it out again."""
        number = self._next = self._next + 1
        self._callbacks[number] = callback
        return lambda: self._callbacks.pop(number, None) and None

    def note(self, info: SegmentInfo) -> None:
        """Have everybody told of a segment."""
        if self._callbacks:
            self._waiting.append(info)

    @property
    def has_listeners(self) -> bool:
        """Whether anybody wants to hear of segments."""
        return bool(self._callbacks)

    @property
    def has_news(self) -> bool:
        """Whether there is something to tell."""
        return bool(self._waiting)

    def run(self) -> None:
        """Tell all there is to tell; the first error is raised when everybody was told."""
        first: BaseException | None = None
        with self._telling:
            while self._waiting:
                info = self._waiting.popleft()
                for callback in tuple(self._callbacks.values()):
                    try:
                        callback(info)
                    except BaseException as error:  # noqa: BLE001 Raised below.
                        first = first or error
        if first is not None:
            raise first

    def refuse(self, error: ClosedError) -> None:  # noqa: ARG002 It is the same for all.
        """Tell nobody any more: the store is closed."""
        self._waiting.clear()
