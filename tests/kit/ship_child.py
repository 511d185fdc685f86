"""The program in processes of their own that are killed at one of their steps.

As a script it reads orders, a line of JSON each, runs the program in a fork of itself, where all is
imported by then, and answers with its exit code, or minus the signal that killed it.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import quiver
import quiver.cli.restore
import quiver.cli.ship
import quiver.cli.upsert
from quiver.cli.program import program
from quiver.consumer import Consumer, SegmentConsumer
from quiver.ship.objects import FolderBucket
from quiver.ship.shipper import restore
from quiver.subscriber import BundleRun
from quiver.upsert import feeding, tending  # noqa: F401

STEPS: dict[str, list[tuple[Any, str]]] = {
    "ship": [
        *((FolderBucket, name) for name in ("get", "get_if_changed", "read", "write", "put_if")),
        *((SegmentConsumer, name) for name in ("ack", "reject", "commit")),
    ],
    "restore": [
        *((FolderBucket, name) for name in ("get", "get_if_changed", "read", "put_if")),
        *((restore, name) for name in ("write_new", "commit")),
    ],
    "upsert": [
        *((FolderBucket, name) for name in ("read", "write", "put", "put_if", "delete")),
        (BundleRun, "ack"),
        (Consumer, "_commit"),
    ],
}
"""What counts as a step of each verb."""


@contextmanager
def taking_orders() -> Iterator[Callable[..., int]]:
    """Start it; gives what runs the program once, and its exit code, or minus its signal."""
    house = str(Path(quiver.__file__).parents[1])
    with subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": house},
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None

        def one(
            arguments: list[object], *, at: int = 0, step: str = "", behind: bool = False
        ) -> int:
            order = {"arguments": [str(each) for each in arguments], "at": at}
            order |= {"step": step, "behind": behind}
            child.stdin.write(json.dumps(order) + "\n")
            child.stdin.flush()
            return int(child.stdout.readline())

        yield one
        child.stdin.close()


def run(arguments: list[str], at: int, *, step: str, behind: bool) -> None:
    """Run the program; SIGKILL comes before its step of this number, or right behind it.

    With ``step`` only those of this name count.
    """
    count = itertools.count(1)

    def mortal(name: str, act: Callable[..., Any]) -> Callable[..., Any]:
        def mortal_act(*args: Any, **named: Any) -> Any:
            dies = step in ("", name) and next(count) == at
            if dies and not behind:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                return act(*args, **named)
            finally:
                if dies:
                    os.kill(os.getpid(), signal.SIGKILL)

        return mortal_act

    for holder, name in STEPS[arguments[0]]:
        setattr(holder, name, mortal(name, getattr(holder, name)))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os._exit(program.run(arguments))


def main() -> None:
    """Take orders until there are no more."""
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            run(order["arguments"], order["at"], step=order["step"], behind=order["behind"])
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
