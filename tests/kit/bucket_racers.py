"""Processes that change one object in a bucket, for a test to run; some are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

__all__ = ["count_in_processes", "kill_at_each_act"]

KIT: Final = Path(__file__).parent


def count_in_processes(url: str, options: dict[str, Any], *, processes: int, steps: int) -> None:
    """Have processes add up the number at ``url``'s ``count``, all at once."""
    with ExitStack() as stack:
        started = []
        for _ in range(processes):
            child = subprocess.Popen(
                [sys.executable, __file__, "count", url, json.dumps(options), str(steps)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            started.append(stack.enter_context(child))
            stack.callback(child.kill)  # Before it is waited for.
        for child in started:
            assert child.stdout.readline() == "ready\n"
        for child in started:
            child.stdin.write("go\n")
            child.stdin.flush()
        for child in started:
            assert child.wait(timeout=100 + steps) == 0


def kill_at_each_act(folder: Path, act: str) -> list[dict[str, Any]]:
    """Kill a writer before each of its acts on the disk; gives what it had promised each time."""
    done = subprocess.run(
        [sys.executable, __file__, "kill", str(folder), act],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def _count(url: str, options: str, steps: str) -> None:
    from quiver.ship.objects import open_bucket
    from quiver.testing.bucket_conformance import count_up

    bucket = open_bucket(url, options=json.loads(options))
    _say("ready")
    sys.stdin.readline()
    count_up(bucket, "count", int(steps))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


_ACTS: Final = ("LocalDisk.create", "LocalDisk.rename", "LocalDisk.sync_dir", "LocalDisk.lock")
_FILE_ACTS: Final = ("LocalFile.write", "LocalFile.sync", "FolderLock.release")


def _kill(folder: str, act: str) -> None:
    """Fork a child for each act, which dies when it comes to that; look at what is left."""
    from quiver.ship.objects import FolderBucket

    for point in range(100):
        path = f"{folder}/{act}{point}"
        FolderBucket(path).put("x", b"old")
        child = os.fork()
        if child == 0:
            _die_at(point)
            bucket = FolderBucket(path)
            if act == "put":
                bucket.put("x", [b"n", b"ew"])
            else:
                bucket.put_if("x", b"new", bucket.get("x").tag)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.wait()[1])
        assert status in (0, -signal.SIGKILL), status
        _say(json.dumps({"path": path, "done": status == 0}))
        if status == 0:
            return
    raise AssertionError("it never came to an end")


def _die_at(point: int) -> None:
    """Let this process die before its act of that number."""
    from quiver.disk.local import LocalDisk
    from quiver.disk.local_file import LocalFile
    from quiver.disk.lock import FolderLock

    kinds = {"LocalDisk": LocalDisk, "LocalFile": LocalFile, "FolderLock": FolderLock}
    left = [point]

    def before(honest: Any) -> Any:
        def act(*args: Any, **named: Any) -> Any:
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return honest(*args, **named)

        return act

    for name in (*_ACTS, *_FILE_ACTS):
        kind, _, method = name.partition(".")
        setattr(kinds[kind], method, before(getattr(kinds[kind], method)))


if __name__ == "__main__":
    {"count": _count, "kill": _kill}[sys.argv[1]](*sys.argv[2:])
