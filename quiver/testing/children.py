"""Do to many inputs what may end the process, in children that are bounded, and count how it went.

==========  ================================================================
``passed``  the act returned
``refused`` it raised a QuiverError
``raised``  it raised something else, a MemoryError at its bound included
``killed``  the child died of a signal; of SIGALRM when it took too long
==========  ================================================================
"""

from __future__ import annotations

import faulthandler
import mmap
import os
import resource
import select
import signal
import struct
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Final

from quiver.errors import QuiverError

__all__ = ["Tally", "run_in_children"]


@dataclass(slots=True)
class Tally:
    """How inputs ended, each in one of these ways; the lists hold what ended so."""

    passed: int = 0
    refused: int = 0
    """Raised a QuiverError."""
    raised: list[tuple[bytes, str]] = field(default_factory=list)
    """Raised anything else: the input and the traceback."""
    killed: list[tuple[bytes, signal.Signals]] = field(default_factory=list)
    """Ended the child by a signal; SIGALRM if it took too long."""

    @property
    def total(self) -> int:
        """How many inputs there were."""
        return self.passed + self.refused + len(self.raised) + len(self.killed)

    def signals(self) -> Counter[str]:
        """Count the deaths by the name of the signal."""
        return Counter(number.name for _, number in self.killed)


_BATCH_SIZE: Final = 500
_TEXT_BYTES: Final = 4000
_BEGIN_SECONDS: Final = 20.0
"""A child that has begun nothing by then stands still."""
_NOTE: Final = struct.Struct("<IIII")
"""What a child writes down as it goes: inputs begun, passed, refused; bytes of a traceback."""


def run_in_children(
    inputs: Iterable[bytes], act: Callable[[bytes], object], *, memory: int, seconds: float
) -> Tally:
    """Call ``act`` with each input in a forked child, and count how that ended.

    A child may have ``memory`` bytes more than it begins with, and an input may take ``seconds``.
    One that dies, or raises what is no QuiverError, is followed by another with the next input. One
    that takes too long is followed by another with the same input, and that counts if it is the
    first one there: a lock that some thread has at a fork is never let go in the child.
    """
    tally = Tally()
    source = iter(inputs)
    with mmap.mmap(-1, _NOTE.size + _TEXT_BYTES) as note:
        while batch := list(islice(source, _BATCH_SIZE)):
            done, is_again = 0, False
            run = partial(_run_child, act=act, tally=tally, memory=memory, seconds=seconds)
            while done < len(batch):
                more = run(batch[done:], note=note, is_again=is_again)
                done, is_again = done + more, not more
    return tally


def _run_child(
    inputs: Sequence[bytes],
    *,
    act: Callable[[bytes], object],
    note: mmap.mmap,
    tally: Tally,
    memory: int,
    seconds: float,
    is_again: bool,
) -> int:
    """Run one child until it ends, add up what it did, and give how many inputs that were.

    Not counted is one that took too long, unless it is the first one, and that again.
    """
    note[:] = bytes(len(note))
    child = os.fork()
    if child == 0:
        _work(inputs, act, note, memory=memory, seconds=seconds)
    _see_to_a_beginning(child, note)
    _, status = os.waitpid(child, 0)
    begun, passed, refused, length = _NOTE.unpack_from(note)
    tally.passed += passed
    tally.refused += refused
    if os.WIFSIGNALED(status):
        killer = signal.Signals(os.WTERMSIG(status))
        if killer is signal.SIGKILL and not begun:
            killer = signal.SIGALRM
        if killer is signal.SIGALRM and not (is_again and begun <= 1):
            return max(begun, 1) - 1
        tally.killed.append((inputs[max(begun, 1) - 1], killer))
    elif begun > passed + refused:
        text = note[_NOTE.size : _NOTE.size + length].decode(errors="replace")
        tally.raised.append((inputs[begun - 1], text))
    return max(begun, 1)


def _see_to_a_beginning(child: int, note: mmap.mmap) -> None:
    """Kill a child that does not begin: it has no timer yet, and may never come to have one.

    What Python does in a child before it gives it back waits for locks as well.
    """
    has_ended = os.pidfd_open(child)
    try:
        while not select.select([has_ended], [], [], _BEGIN_SECONDS)[0]:
            if _NOTE.unpack_from(note)[0]:
                return
            os.kill(child, signal.SIGKILL)
    finally:
        os.close(has_ended)


def _work(
    inputs: Sequence[bytes],
    act: Callable[[bytes], object],
    note: mmap.mmap,
    *,
    memory: int,
    seconds: float,
) -> None:
    """Be the child: bounded, and never back to where it was forked."""
    begun = passed = refused = 0
    try:
        faulthandler.disable()  # A death is told by its signal.
        with open("/proc/self/statm") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + memory,) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        for begun, data in enumerate(inputs, 1):
            _NOTE.pack_into(note, 0, begun, passed, refused, 0)
            signal.setitimer(signal.ITIMER_REAL, seconds)
            try:
                act(data)
                passed += 1
            except QuiverError:
                refused += 1
        _NOTE.pack_into(note, 0, begun, passed, refused, 0)
    except BaseException:  # noqa: BLE001
        text = traceback.format_exc().encode()[-_TEXT_BYTES:]
        note[_NOTE.size : _NOTE.size + len(text)] = text
        _NOTE.pack_into(note, 0, begun, passed, refused, len(text))
    finally:
        os._exit(0)
