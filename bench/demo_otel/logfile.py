"""A process that writes a log: ``python -m bench.demo_otel.logfile FILE LINES SECONDS``."""

from __future__ import annotations

import sys
import time
from typing import Final

from bench.demo_otel.flights import flight_log
from bench.demo_stream.telling import say

__all__ = ["main"]

_AT_ONCE: Final = 250


def main(path: str, lines: int, seconds: float) -> None:
    """Write so many lines in so many seconds, some at a time, then say ``done``."""
    log = flight_log(lines)
    began = time.monotonic()
    with open(path, "a", encoding="utf-8") as file:
        say("ready")
        for first in range(0, len(log), _AT_ONCE):
            file.write("".join(f"{line}\n" for line in log[first : first + _AT_ONCE]))
            file.flush()
            wait = began + seconds * first / len(log) - time.monotonic()
            time.sleep(max(wait, 0.0))
    say("done")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
