"""Samples of py-spy, folded and pruned, as small pictures: width is time, callers are above."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

__all__ = ["Stack", "draw", "folded", "selves"]

_BEGIN: Final = "measured (bench/profiling/works.py"
_IDLE: Final = (
    "Condition.wait (threading.py",
    "_queue_SimpleQueue_get",
    "lock_PyThread_acquire_lock",
    "__init__ (bench/",
)
_LOCK: Final = "PyThread_acquire_lock_timed"
_GIL: Final = ("pthread_cond_timedwait", "take_gil", "drop_gil")
_NOISE: Final = re.compile(
    r"^(0x[0-9a-f]+ |thread_run|Thread\.(_bootstrap|run)|lock_PyThread|_call_function_pointer|"
    r"ffi_|PyCFuncPtr_call|arrow::VisitTypeInline|arrow::VisitArrayInline|arrow::Result<|"
    r"_ctypes_callproc|<listcomp>|wrapper )"
)
_LEAST: Final = 0.004
"""Of all samples: what is narrower is not drawn."""
_WIDTH, _ROW, _CHARACTER = 1180, 17, 6.2
_COLOURS: Final = {
    "Quiver": "#9fd3a8",
    "the bench": "#d9d9d9",
    "Arrow": "#a9c8ec",
    "kernel, libc": "#f2b08c",
    "waiting": "#e7e0a5",
    "others": "#d8c3e6",
}


class Stack(NamedTuple):
    """Frames from the outermost to the innermost; the first is a thread."""

    frames: tuple[str, ...]
    count: int


def folded(text: str) -> list[Stack]:
    """Take what counts out of what py-spy wrote: the main thread in ``measured``, others at work.

    The main thread has what it waits for, so its width is the time that passes; the others have
    only what they do.
    """
    found: Counter[tuple[str, ...]] = Counter()
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        thread = frames[0].partition(": ")[2]
        at = [n for n, frame in enumerate(frames) if frame.startswith(_BEGIN)]
        begin = at[-1] if at else None
        if thread == "MainThread":
            if begin is None:
                continue
            thread, frames = "main thread", frames[begin:]
        elif (
            not thread
            or thread.startswith("rehearsal")
            or any(frame.startswith(_IDLE) for frame in frames)
        ):
            continue
        names = tuple(_plain(frames[1:]))
        found[(thread.partition("-0_")[0], *names)] += int(count)
    return [Stack(frames, count) for frames, count in found.items()]


def _plain(frames: Sequence[str]) -> Iterator[str]:
    """Leave out lines, addresses, and steps that say nothing; say what a thread waits for."""
    for frame in frames:
        if frame.startswith(_LOCK):
            yield "waits for a lock"
            return
        if frame.startswith(_GIL):
            yield "waits for the interpreter's lock"
            return
        if not _NOISE.match(frame):
            name = re.sub(r"\.cpython-\d+-[\w-]+", "", re.sub(r":\d+\)$", ")", frame))
            yield _demangled(name) if name.startswith("_ZN") else name


def _demangled(name: str) -> str:
    """Give the name of a C++ function, without its types."""
    mangled, _, rest = name[3:].partition(" ")
    parts = []
    while found := re.match(r"(\d+)", mangled):
        start = found.end()
        parts.append(mangled[start : start + int(found[1])])
        mangled = mangled[start + int(found[1]) :]
    return f"{'::'.join(parts)} {rest}"


def selves(stacks: Sequence[Stack], thread: str, most: int = 8) -> list[tuple[str, float]]:
    """List what a thread was in itself, with its share of the thread's samples."""
    found: Counter[str] = Counter()
    for stack in stacks:
        if stack.frames[0] == thread:
            found[stack.frames[-1]] += stack.count
    return [(name, count / found.total()) for name, count in found.most_common(most)]


class _Node:
    def __init__(self) -> None:
        self.count = 0
        self.inner: dict[str, _Node] = {}

    def add(self, frames: Sequence[str], count: int) -> None:
        self.count += count
        if frames:
            self.inner.setdefault(frames[0], _Node()).add(frames[1:], count)


def draw(title: str, stacks: Sequence[Stack]) -> str:
    """Draw them as SVG; the main thread first."""
    root = _Node()
    for stack in stacks:
        root.add(stack.frames, stack.count)
    lines: list[str] = []
    depth = 0
    left = 0.0
    threads = sorted(root.inner, key=lambda name: (name != "main thread", -root.inner[name].count))
    for name in threads:
        width = root.inner[name].count / max(root.count, 1) * _WIDTH
        depth = max(depth, _box(lines, name, root.inner[name], (left, 2, width), root.count))
        left += width
    height = (depth + 2) * _ROW + 10
    legend = _legend()
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="DejaVu Sans Mono, monospace" '
        f'font-size="10"><rect width="100%" height="100%" fill="#fff"/>'
        f'<text x="4" y="13" font-size="12">{html.escape(title)}: {root.count:,} samples</text>'
    )
    return "\n".join([head, *legend, *lines, "</svg>"]) + "\n"


def _box(
    lines: list[str], name: str, node: _Node, place: tuple[float, int, float], whole: int
) -> int:
    """Draw a frame and those that it called, widest first; how deep it goes."""
    left, depth, width = place
    if node.count < _LEAST * whole:
        return depth
    share = node.count / whole
    shown = name.partition(" (")[0] if "::" in name or ".so" in name else name
    room = int((width - 4) / _CHARACTER)
    text = shown if len(shown) <= room else (shown[: room - 1] + "…" if room > 3 else "")
    top = depth * _ROW
    lines.append(
        f'<g><title>{html.escape(name)}: {share:.1%}</title><rect x="{left:.1f}" y="{top}" '
        f'width="{max(width - 0.5, 0.5):.1f}" height="{_ROW - 1}" fill="{_COLOURS[_kind(name)]}"/>'
        + (f'<text x="{left + 2:.1f}" y="{top + 12}">{html.escape(text)}</text>' if text else "")
        + "</g>"
    )
    deepest = depth + 1
    for inner, child in sorted(node.inner.items(), key=lambda item: -item[1].count):
        share_width = width * child.count / node.count
        deepest = max(deepest, _box(lines, inner, child, (left, depth + 1, share_width), whole))
        left += share_width
    return deepest


def _kind(name: str) -> str:
    if name.startswith("waits"):
        return "waiting"
    if "(quiver/" in name or name.startswith("quiver-"):
        return "Quiver"
    if "(bench/" in name or name == "main thread":
        return "the bench"
    if "arrow" in name:
        return "Arrow"
    if "libc.so" in name or name.startswith("os_"):
        return "kernel, libc"
    return "others"


def _legend() -> list[str]:
    lines = []
    left = _WIDTH - 110 * len(_COLOURS)
    for at, (name, colour) in enumerate(_COLOURS.items()):
        x = left + at * 110
        lines.append(
            f'<rect x="{x}" y="18" width="10" height="10" fill="{colour}"/>'
            f'<text x="{x + 14}" y="27">{name}</text>'
        )
    return lines
