"""No system call of a store goes past disk/: what strace saw is what disk/ asked for."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest

ASKED = [
    *("open", "write", "pwrite", "pwritev", "ftruncate", "rename", "unlink", "mkdir"),
    *("chmod", "fchmod", "fsync", "fdatasync"),
]
"""The calls of the os module that change a disk or open something on it, as disk/ uses them."""

SAME = {"openat": "open", "pwrite64": "pwrite", "renameat": "rename", "unlinkat": "unlink"}
SAME |= {"pwritev2": "pwritev", "mkdirat": "mkdir", "fchmodat": "chmod", "fchmodat2": "chmod"}
"""System calls that are one of those with a folder given."""

WATCHED = [*ASKED, *SAME, "fallocate", "writev", "creat", "link", "linkat", "symlink", "symlinkat"]
WATCHED += ["renameat2", "truncate", "sync_file_range", "copy_file_range", "sendfile", "sync"]
WATCHED += ["syncfs", "msync", "rmdir", "setxattr", "io_uring_enter"]
WATCHED = [call for call in WATCHED if call not in ("pwrite", "fchmodat2")]

LIFE = """
    import collections, os, sys
    import pyarrow as pa
    import quiver
    from importlib import import_module
    from quiver.disk import calls, local, local_file, lock

    asked = collections.Counter()

    class Os:
        def __getattr__(self, name):
            real = getattr(os, name)
            if name not in {asked}:
                return real
            def counted(*args, **kwargs):
                asked[name] += 1
                return real(*args, **kwargs)
            return counted

    class Libc:
        real = calls._libc
        def __getattr__(self, name):
            def counted(*args):
                asked[name] += 1
                return getattr(self.real, name)(*args)
            return counted

    local.os = local_file.os = lock.os = Os()
    calls._libc = Libc()
    import_module("quiver.disk.replace")._PIECE = 1000
    config = {{"segment": {{"target_size": 3000}}}}
    config["wal"] = {{"rotate_size": 4000, "reclaim_size": 1}}
    config["acks"] = {{"max_size": 2000}}
    for _ in range(2):
        with quiver.open(sys.argv[1], slots=["a"], config=config, worker=False) as store:
            for n in range(40):
                store.append({{"a": pa.record_batch({{"n": list(range(n, n + 20))}})}})
            subscription = store.subscribe("reader")
            while (handle := subscription.poll()) is not None:
                handle.ack()
            store.maintain()
            {bypass}
    for call, count in sorted(asked.items()):
        print(call, count)
"""


def calls_of_a_life(store: Path, trace: Path, bypass: str = "") -> tuple[Counter, Counter]:
    """Live under strace; give the calls on paths of the store, and those that disk/ asked for."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed: apt-get install strace")
    code = textwrap.dedent(LIFE).format(asked=ASKED, bypass=bypass or "pass")
    command = ["strace", "-f", "-qq", "-y", "-s", "256", "-o", str(trace)]
    command += ["-e", "trace=" + ",".join(dict.fromkeys(WATCHED))]
    done = subprocess.run(
        [*command, sys.executable, "-c", code, str(store)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode and "PTRACE" in done.stderr:
        pytest.skip(f"strace may not trace here: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    asked = Counter({c: int(n) for c, n in (line.split() for line in done.stdout.splitlines())})
    line = re.compile(r"^\d+ +(\w+)\(")
    seen: Counter = Counter()
    for text in trace.read_text().splitlines():
        found = line.match(text)
        if found and f"{store.parent}" in text:  # Making the root syncs the folder it is in.
            seen[SAME.get(found[1], found[1])] += 1
    return seen, asked


def test_every_system_call_of_a_store_goes_through_disk(tmp_path: Path) -> None:
    seen, asked = calls_of_a_life(tmp_path / "store", tmp_path / "trace")
    assert min(asked["pwrite"] + asked["pwritev"], asked["open"]) > 100
    rare = ["fallocate", "sync_file_range", "unlink", "fsync", "rename"]
    assert min(asked[call] for call in rare) > 10
    assert seen == asked


def test_a_call_past_disk_would_be_noticed(tmp_path: Path) -> None:
    bypass = "os.ftruncate(os.open(sys.argv[1] + '/core_0/LOCK', os.O_RDWR), 5)"
    seen, asked = calls_of_a_life(tmp_path / "store", tmp_path / "trace", bypass)
    assert seen["ftruncate"] == asked["ftruncate"] + 2
