"""Whether a subscriber gets all that a store has: a segment whose end is damaged is not handed out.

Its bundles are not lost to the subscriber: an opening of the store mends what the log still has of
them, or tells that they are gone. Who ends before that has to say that something is missing.
"""

from __future__ import annotations

from quiver.consumer.consumer import Consumer
from quiver.errors import DamagedEntry

__all__ = ["check_whole"]


def check_whole(consumer: Consumer) -> None:
    """Raise DamagedEntry for the first segment of which nobody knows what it holds."""
    with consumer._lock:  # noqa: SLF001
        followers = sorted(consumer._followers.items())  # noqa: SLF001
    for core, follower in followers:
        for segment_seq, error in follower.unreadable():
            raise DamagedEntry(
                f"segment {segment_seq} of core {core} was passed over: {error.message}",
                path=error.path,
                offset=error.offset,
                hint="quiver repair mends what can be mended; its bundles come with the next run",
            ) from error
