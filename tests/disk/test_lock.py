"""One writer for a folder: refused while held, named by pid, gone with the process."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys

import pytest

from quiver.disk import LocalDisk
from quiver.errors import LockedError

HOLDER = """
import sys
from quiver.disk import LocalDisk
lock = LocalDisk(sys.argv[1]).lock("LOCK")
print("held", flush=True)
sys.stdin.read()
"""


LISTER = """
import errno
import os
print([os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")
       if os.path.exists(f"/proc/self/fd/{name}")], flush=True)
"""


@pytest.fixture
def disk(tmp_path):
    disk = LocalDisk(tmp_path)
    yield disk
    disk.close()


def test_a_second_open_of_the_same_process_is_refused_by_pid(disk) -> None:
    lock = disk.lock("LOCK")
    with pytest.raises(LockedError, match=f"written by process {os.getpid()} ") as caught:
        disk.lock("LOCK")
    assert caught.value.pid == os.getpid()
    lock.release()
    lock.release()
    disk.lock("LOCK").release()


def test_another_process_is_refused_and_a_kill_frees_the_lock(disk) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, disk.root],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LockedError) as caught:
            disk.lock("LOCK")
        assert caught.value.pid == holder.pid
        assert caught.value.retryable
    finally:
        holder.kill()
        holder.communicate()
    disk.lock("LOCK").release()


def test_closing_another_descriptor_of_the_file_does_not_drop_the_lock(disk) -> None:
    lock = disk.lock("LOCK")
    disk.open("LOCK", writable=True).close()
    with pytest.raises(LockedError):
        disk.lock("LOCK")
    lock.release()


@pytest.mark.parametrize("text", ["", "nonsense", "-5\n", "9" * 40])
def test_a_lock_file_without_a_pid_names_nobody(disk, text: str) -> None:
    lock = disk.lock("LOCK")
    with open(disk.locate("LOCK"), "w") as file:
        file.write(text)
    with pytest.raises(LockedError):
        disk.lock("LOCK")
    lock.release()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # The child only waits and ends.
def test_a_forked_child_neither_frees_the_lock_nor_keeps_it(disk) -> None:
    lock = disk.lock("LOCK")
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        try:
            lock.release()
            theirs.send(b"released")
            theirs.recv(1)
        finally:
            os._exit(0)
    try:
        assert ours.recv(8) == b"released"
        with pytest.raises(LockedError):
            disk.lock("LOCK")
        lock.release()
        disk.lock("LOCK").release()
    finally:
        ours.send(b"x")
        os.waitpid(child, 0)
        ours.close()
        theirs.close()


def test_a_program_started_meanwhile_has_the_lock_closed(disk) -> None:
    lock = disk.lock("LOCK")
    child = subprocess.Popen(
        [sys.executable, "-c", LISTER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        close_fds=False,
    )
    try:
        inherited = child.stdout.readline()
        assert "pipe" in inherited
        assert "LOCK" not in inherited
    finally:
        child.kill()
        child.communicate()
        lock.release()


PARENT = """
import os, sys, time
from quiver.disk import LocalDisk
lock = LocalDisk(sys.argv[1]).lock("LOCK")
if not os.fork():
    print(os.getpid(), flush=True)  # By the child: what it does on its first steps is done.
sys.stdin.read()
"""


def test_a_child_that_was_forked_keeps_no_lock_of_a_parent_that_was_killed(disk) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, disk.root],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        child = int(parent.stdout.readline())
        with pytest.raises(LockedError):
            disk.lock("LOCK")
        parent.kill()
        parent.wait()
        os.kill(child, 0)  # It is there, and waits.
        disk.lock("LOCK").release()
    finally:
        parent.kill()
        parent.communicate()  # Its end lets the child end, too.


@pytest.mark.parametrize("before", ["", "4711\n"])
def test_a_full_disk_keeps_nobody_from_a_lock(disk, before: str, monkeypatch) -> None:
    with open(disk.locate("LOCK"), "w") as file:
        file.write(before)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    lock = disk.lock("LOCK")
    with pytest.raises(LockedError, match="by process unknown"):
        disk.lock("LOCK")
    lock.release()
