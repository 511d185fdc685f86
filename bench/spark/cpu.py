"""CPU seconds of Spark's Java and of its Python workers: what other load on the machine leaves."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import NamedTuple, TypeAlias

_TICKS = os.sysconf("SC_CLK_TCK")


Threads: TypeAlias = dict[tuple[str, int, str], float]


class Cpu(NamedTuple):
    """Seconds of the Java side, and of all Python processes below it."""

    java: float
    python: float

    def __sub__(self, other: Cpu) -> Cpu:
        return Cpu(self.java - other.java, self.python - other.python)


def spent() -> Cpu:
    """Add up what all processes below this one have taken so far."""
    java = python = 0
    for pid in _below(os.getpid()):
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        name = text[text.index("(") + 1 : text.rindex(")")]
        own, system, kids, kids_system = (int(n) for n in text[text.rindex(")") :].split()[12:16])
        if name == "java":
            java += own + system
        else:
            python += own + system + kids + kids_system
    return Cpu(java / _TICKS, python / _TICKS)


def by_thread() -> Threads:
    """Give the seconds so far of each thread of Java and of Python, by kind, process and thread."""
    found: Threads = {}
    for pid in _below(os.getpid()):
        for place in Path(f"/proc/{pid}/task").glob("*"):
            try:
                name = (place / "comm").read_text().strip()
                taken = int((place / "schedstat").read_text().split()[0]) / 1e9
                is_java = Path(f"/proc/{pid}/comm").read_text().strip() == "java"
            except (FileNotFoundError, ProcessLookupError):
                continue
            found[_kind(name) if is_java else "Python", pid, place.name] = taken
    return found


def since(before: Threads) -> Counter[str]:
    """Add up what each kind of thread has taken since then; without those that have ended."""
    found: Counter[str] = Counter()
    for thread, taken in by_thread().items():
        found[thread[0]] += taken - before.get(thread, 0.0)
    return found


def _kind(thread: str) -> str:
    kinds = {
        "Executor task": "tasks",
        "C1 Comp": "compilers",
        "C2 Comp": "compilers",
        "G1 ": "garbage collector",
        "GC ": "garbage collector",
        "VM Thread": "garbage collector",
    }
    return next((kind for start, kind in kinds.items() if thread.startswith(start)), "rest of Java")


def _below(pid: int) -> list[int]:
    found = []
    for place in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(child) for child in place.read_text().split()]
        except (FileNotFoundError, ProcessLookupError):
            continue
        for child in children:
            found += [child, *_below(child)]
    return found
