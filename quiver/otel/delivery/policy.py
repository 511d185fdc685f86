"""How long to wait after a failure: one batch for itself, and all of them for the other side."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Final

from quiver.errors import ConfigError
from quiver.units import MILLISECOND, SECOND

__all__ = ["Gate", "Policy"]

_JITTER: Final = 0.2
"""Up to this share is taken off a delay, so that what failed together does not come together."""
_DOUBLINGS_MAX: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Delays double from ``retry_first`` to ``retry_max``; nanoseconds.

    When nothing of a call was taken, nothing is sent for a while, no longer than ``gate_max``
    unless the other side says so. ``offers_max`` batches, of no more than ``offers_bytes``, wait to
    be sent before their segment is there; what is above comes with its segment. When half of that
    is taken, and the process is short of time, receivers wait for room, if any was made in the
    last ``offers_wait``.
    """

    retry_first: int = SECOND
    retry_max: int = 30 * SECOND
    gate_max: int = 5 * SECOND
    offers_max: int = 256
    offers_bytes: int = 32 << 20
    offers_wait: int = 100 * MILLISECOND

    def __post_init__(self) -> None:
        """Refuse delays that are none."""
        if not 0 < self.retry_first <= self.retry_max or self.gate_max <= 0:
            raise ConfigError("retry: the first delay is above 0 and no longer than the longest")

    def delay_ns(self, attempt: int, after_seconds: float | None, *, key: str) -> int:
        """How long a batch waits after its ``attempt``-th failure; ``key`` tells it from others."""
        doubled = self.retry_first << min(max(attempt - 1, 0), _DOUBLINGS_MAX)
        return _delay(min(doubled, self.retry_max), after_seconds, key)


def _delay(wait_ns: int, after_seconds: float | None, key: str) -> int:
    wait_ns -= int(wait_ns * _JITTER * zlib.crc32(key.encode()) / (1 << 32))
    return max(wait_ns, int((after_seconds or 0) * SECOND))


class Gate:
    """Whether anything is to be sent now."""

    def __init__(self, policy: Policy, name: str) -> None:
        """Begin open."""
        self._policy, self._name = policy, name
        self._until_ns = 0
        self.failures = 0

    def fail(self, now_ns: int, after_seconds: float | None = None) -> None:
        """Close for longer each time, or as long as the other side says."""
        wait_ns = min(
            self._policy.retry_first << min(self.failures, _DOUBLINGS_MAX), self._policy.gate_max
        )
        self.failures += 1
        key = f"{self._name} {self.failures} {now_ns}"
        self._until_ns = now_ns + _delay(wait_ns, after_seconds, key)

    def succeed(self) -> None:
        """Open, and forget what failed."""
        self.failures = 0
        self._until_ns = 0

    def rest_ns(self, now_ns: int) -> int:
        """How long it stays closed; 0 if it is open."""
        return max(self._until_ns - now_ns, 0)
