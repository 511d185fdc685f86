"""Stands before the server: spoils answers, stops who is to be killed, shows each manifest."""

from __future__ import annotations

import http
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from bench.kills.servers import FaultProxy, fault_proxy

__all__ = ["FAULTS", "Aim", "Traffic"]

FAULTS: Final = ("lost", "missed", "status", "refused", "cut", "delayed", "held")
"""What may become of a request: done without an answer, not done and none, done and 500, not done
and 503, half an answer, done late, done and answered late."""
_DELAY_MAX: Final = 0.4


@dataclass
class Aim:
    """The request in which somebody is to be killed."""

    who: str
    """"" for anybody."""
    skip: int
    """So many go by before."""
    writes: bool
    """Only those that change something count."""
    key: str
    """"" for any; only requests for this object count."""
    reaches: bool
    """Whether the server gets it, though its sender is dead by then."""
    reached: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)

    def fits(self, seen: Any) -> bool:
        """Whether a request is one of those that count."""
        if self.writes and seen.method not in ("PUT", "POST", "DELETE"):
            return False
        if self.key and not seen.path.endswith(f"/{self.key}"):
            return False
        return self.who in _header(seen, "user-agent")


class Traffic(FaultProxy):
    """Between all actors and the server; a share of what comes by is spoilt."""

    def __init__(self, port: int, rng: random.Random, share: float) -> None:
        super().__init__(port)
        self.share = share
        self.spoilt = 0
        self.shows: tuple[str, Callable[[bytes], object]] | None = None
        """An object, and who is shown each state of it that goes by."""
        self._rng = rng
        self._aim: Aim | None = None
        self._under = 0
        self._turn = threading.Condition()

    def aim(self, aim: Aim | None) -> None:
        """Stop the request that fits; None: no one."""
        with self._turn:
            self._aim = aim

    def forward(self, seen: Any, body: bytes) -> Any:
        """Ask the server, and know how many do so at a time."""
        with self._turn:
            self._under += 1
        try:
            answer = super().forward(seen, body)
            if self.shows is not None and answer[0] == http.HTTPStatus.OK:
                key, see = self.shows
                if seen.path.endswith(f"/{key}"):
                    with self._turn:
                        see(body if seen.method == "PUT" else answer[2])
            return answer
        finally:
            with self._turn:
                self._under -= 1
                self._turn.notify_all()

    def await_silence(self, seconds: float) -> bool:
        """Wait until nothing is on its way to the server; say whether that is so."""
        with self._turn:
            return self._turn.wait_for(lambda: not self._under, seconds)

    def calm(self) -> None:
        """Spoil nothing any more."""
        with self._turn:
            self._aim, self.share = None, 0.0

    def take(self, seen: Any) -> Any:
        """Say what happens to a request."""
        with self._turn:
            aim = self._aim
            if aim is not None and aim.fits(seen):
                aim.skip -= 1
                if aim.skip < 0:
                    self._aim = None
                    aim.reached.set()
                    return fault_proxy.Fault(reaches=aim.reaches, held=aim.release)
            if self._rng.random() >= self.share:
                return None
            self.spoilt += 1
            kind = self._rng.choice(FAULTS)
            delay = self._rng.random() * _DELAY_MAX
        return _fault(kind, delay)


def _fault(kind: str, delay: float) -> Any:
    fault = fault_proxy.Fault
    match kind:
        case "lost":
            return fault()
        case "missed":
            return fault(reaches=False)
        case "status":
            return fault(status=500)
        case "refused":
            return fault(reaches=False, status=503)
        case "cut":
            return fault(cut=True)
        case "delayed":
            time.sleep(delay)
            return None
    release = threading.Event()
    threading.Timer(delay, release.set).start()
    return fault(held=release)


def _header(seen: Any, wanted: str) -> str:
    return next((value for name, value in seen.headers.items() if name.lower() == wanted), "")
