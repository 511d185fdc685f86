"""What a consumer handed out, and what of it is acked. Pure.

::

    last_acked          handed out, not acked          last_passed
    ----------|-----------------------------------------------|----------> the queue

What is passed over (a repeat, a batch that went to the dead letters) is acked by nobody: it goes
with the next ack behind it, so that a sequence which an application stored is never below one that
was dequeued.
"""

from __future__ import annotations

from collections import deque

from quiver.errors import InputError

__all__ = ["Cursors"]


class Cursors:
    """Three places in the queue, and the order of acks."""

    def __init__(self, last_acked: int | None) -> None:
        self.last_acked = last_acked
        self.last_passed = last_acked
        """The last that was handed out or passed over; None at the start of a queue."""
        self.pending_count = 0
        """Acks since the last dequeue."""
        self._handed: deque[int] = deque()

    @property
    def handed_count(self) -> int:
        """How many are handed out and not acked."""
        return len(self._handed)

    def hand_out(self, sequence: int) -> None:
        """Note that somebody has it now."""
        self._handed.append(sequence)
        self.last_passed = sequence

    def pass_over(self, sequence: int) -> None:
        """Note that nobody will get it."""
        self.last_passed = sequence

    def take_back(self, last_passed: int | None) -> None:
        """Forget what was handed out behind a place: nobody has it."""
        while self._handed and (last_passed is None or self._handed[-1] > last_passed):
            self._handed.pop()
        self.last_passed = last_passed

    def check_ack(self, sequence: int) -> None:
        """Raise InputError unless it is the oldest that is handed out."""
        expected = self._handed[0] if self._handed else None
        if sequence != expected:
            raise self._wrong(sequence, f"the next to be acked is {_said(expected)}")

    def check_ack_through(self, sequence: int) -> None:
        """Raise InputError unless it is handed out and not acked."""
        if sequence not in self._handed:
            last = self._handed[-1] if self._handed else None
            raise self._wrong(sequence, f"handed out and not acked: up to {_said(last)}")

    def _wrong(self, sequence: int, expected: str) -> InputError:
        return InputError(
            f"sequence {sequence} cannot be acked: {expected}, last acked {_said(self.last_acked)}",
            hint="ack in order what next_batch or next_descriptors gave",
        )

    def ack_through(self, sequence: int) -> int:
        """Note it and all before as acked, and say how many those were."""
        count = 0
        while self._handed and self._handed[0] <= sequence:
            self._handed.popleft()
            count += 1
        self.last_acked = sequence
        self.pending_count += count
        return count


def _said(sequence: int | None) -> str:
    return "none" if sequence is None else str(sequence)
