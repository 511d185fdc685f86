"""A disk with the two folders of a core's acks, that fails on demand."""

import errno
import posixpath

import pytest

from quiver.acks import Ack, AckLog, Register
from quiver.disk import LocalDisk
from quiver.disk.local_file import LocalFile
from quiver.errors import CapacityError, StorageError

ACKS, QUARANTINE = "core_0/acks", "core_0/quarantine"
# Acks with bundles between them: those next to each other would be read as one.
SOME = Register(1, "spark"), Ack(1, 0, 0, 1, 0), Ack(1, 0, 2, 1, 1)


class FailingFile(LocalFile):
    """A file whose next acts of the kinds in ``plan`` fail; a write leaves its first half."""

    plan: set[str]

    def write(self, offset, data):
        if "write" in self.plan:
            half = memoryview(data)[: len(data) // 2]
            super().write(offset, half)
            raise CapacityError("no space left")
        super().write(offset, data)

    def truncate(self, size):
        if "truncate" in self.plan:
            raise StorageError("cannot truncate", errno=errno.EIO)
        super().truncate(size)

    def sync(self):
        if "sync" in self.plan:
            raise StorageError("cannot sync", errno=errno.EIO)
        super().sync()


class AcksDisk(LocalDisk):
    """A disk that refuses the acts named in ``plan``, as ``act`` or ``act:last name``."""

    def __init__(self, root):
        super().__init__(root, create=True)
        self.plan = set()

    def _check(self, act, path):
        if act in self.plan or f"{act}:{posixpath.basename(path)}" in self.plan:
            raise StorageError(f"cannot {act} {path}", errno=errno.EIO)

    def _wrap(self, file):
        failing = FailingFile(file._descriptor, file.path, file._place)
        failing.plan = self.plan
        return failing

    def create(self, path, *, mode=0o600):
        self._check("create", path)
        return self._wrap(super().create(path, mode=mode))

    def open(self, path, *, writable=False):
        return self._wrap(super().open(path, writable=writable))

    def rename(self, source, target):
        self._check("rename", target)
        super().rename(source, target)

    def sync_dir(self, path):
        self._check("sync_dir", path)
        super().sync_dir(path)

    def start(self):
        return AckLog.open(self, ACKS, QUARANTINE)

    def replayed(self):
        """Open, look and close."""
        log, replay = self.start()
        log.close()
        return replay

    def filled(self, records=SOME):
        """Open, with records that are synced."""
        log, _ = self.start()
        log.append(records)
        log.sync()
        return log

    def read(self, name, folder=ACKS):
        file = self.open(f"{folder}/{name}")
        data = file.read(0, file.size())
        file.close()
        return data

    def put(self, name, data):
        path = f"{ACKS}/{name}"
        if self.stat(path):
            self.unlink(path)
        file = self.create(path)
        file.write(0, data)
        file.close()

    def names(self, folder):
        return [entry.name for entry in self.list_dir(folder)] if self.stat(folder) else []


@pytest.fixture
def disk(tmp_path):
    disk = AcksDisk(tmp_path / "store")
    disk.make_dir("core_0")
    yield disk
    disk.plan.clear()
    disk.close()
