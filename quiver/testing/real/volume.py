"""A real file system on a loop device, made for a test and able to lose its power.

Its blocks are an anonymous file in RAM, sparse and sealed in size: no disk of the machine can be
filled by it, and when the process is gone only a mount may be left, if it was killed.

=======  ================================================================================
kind     mounted so that it forgives as little as it may
=======  ================================================================================
``ext4`` ``data=writeback,noauto_da_alloc``: bytes are not ordered before names, and a rename
         over a file does not write the new one first
``xfs``  as it is
=======  ================================================================================
"""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Literal, Self, TypeAlias

from quiver.errors import StorageError
from quiver.testing.real.kernel import LoopDevice, Power, mount, shut_down, unmount

__all__ = ["KINDS", "Kind", "Volume", "obstacle"]

Kind: TypeAlias = Literal["ext4", "xfs"]

MIB: Final = 1 << 20


_EXT4_AT_ONCE: Final = "nodiscard,lazy_itable_init=0,lazy_journal_init=0"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to make and mount one kind of file system."""

    command: tuple[str, ...]
    package: str
    options: str
    image_bytes: int


KINDS: Final[dict[Kind, Recipe]] = {
    "ext4": Recipe(
        ("mkfs.ext4", "-q", "-F", "-b", "4096", "-E", _EXT4_AT_ONCE),
        "e2fsprogs",
        "data=writeback,noauto_da_alloc",
        64 * MIB,
    ),
    "xfs": Recipe(("mkfs.xfs", "-q", "-f", "-K"), "xfsprogs", "", 304 * MIB),
}
"""XFS makes no file system smaller than 300 MiB."""

_PATHS: Final = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
_MKFS_SECONDS_MAX: Final = 60


def obstacle(kind: Kind) -> str | None:
    """Say why this machine can have no volume of a kind; None if it can."""
    recipe = KINDS[kind]
    if os.geteuid() != 0:
        return f"mounting {kind} needs root"
    if not os.path.exists("/dev/loop-control"):
        return "there are no loop devices: /dev/loop-control is missing"
    if shutil.which(recipe.command[0], path=_PATHS) is None:
        return f"{recipe.command[0]} is not installed: apt-get install {recipe.package}"
    try:
        with Volume(kind):
            return None
    except StorageError as error:
        return f"no {kind} can be mounted here: {error}"


class Volume:
    """A mounted file system: ``path`` is where. Use it in a ``with`` block, in one thread."""

    def __init__(self, kind: Kind, *, image: int | None = None, options: str = "") -> None:
        """Make and mount it, in RAM or in the open file ``image``, which stays the caller's."""
        self.kind = kind
        self._recipe = KINDS[kind]
        self._options = ",".join(filter(None, (self._recipe.options, options)))
        self._mounted = False
        self._store_count = 0
        self._device: LoopDevice | None = None
        self.path = tempfile.mkdtemp(prefix=f"quiver-{kind}-")
        try:
            own = _blank_image(self._recipe.image_bytes) if image is None else image
            try:
                self._device = LoopDevice(own)
            finally:
                if image is None:
                    os.close(own)
            self._make()
            self._mount()
        except BaseException:
            self.close()
            raise

    def new_folder(self) -> str:
        """Give a path on the volume that never was, for a store to be made there.

        Raises StorageError rather than let anything be written below an empty mount point.
        """
        if not os.path.ismount(self.path):
            raise StorageError(f"nothing is mounted at {self.path}", path=self.path)
        self._store_count += 1
        return os.path.join(self.path, f"store_{self._store_count}")

    def shut_down(self, power: Power) -> None:
        """Cut the power; nothing but ``remount`` and ``close`` works after that."""
        shut_down(self.path, power)

    def remount(self) -> None:
        """Bring the volume back as a reboot does: caches lost, journal replayed.

        Every file on it must be closed; raises StorageError if one is not.
        """
        self._unmount()
        self._mount()

    def clear(self) -> None:
        """Delete all stores. A cut may bring them back; ``new_folder`` gives no path twice."""
        for name in os.listdir(self.path):
            if name.startswith("store_"):
                shutil.rmtree(os.path.join(self.path, name))

    def close(self) -> None:
        """Unmount and let go of everything, whatever state it is in.

        Raises StorageError if a file on it is still open; its name is gone all the same, and the
        rest goes with that file.
        """
        try:
            if self._mounted:
                self._unmount()
        except StorageError:
            self._mounted = False
            unmount(self.path, detach=True)
            raise
        finally:
            if self._device is not None:
                self._device.close()
            if os.path.isdir(self.path):
                os.rmdir(self.path)

    def __enter__(self) -> Self:
        """Give the volume itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it; files that are open because of an error do not hide that error."""
        try:
            self.close()
        except StorageError:
            if error is None:
                raise

    def _make(self) -> None:
        command = [*self._recipe.command, self._loop.path]
        command[0] = shutil.which(command[0], path=_PATHS) or command[0]
        try:
            subprocess.run(  # noqa: S603 (from the table above)
                command, check=True, capture_output=True, timeout=_MKFS_SECONDS_MAX
            )
        except FileNotFoundError as error:
            raise StorageError(f"{command[0]} is not installed", path=command[0]) from error
        except subprocess.SubprocessError as error:
            said = getattr(error, "stderr", None) or b""
            reason = said.decode(errors="replace").strip() or str(error)
            raise StorageError(f"no {self.kind} can be made: {reason}") from error

    def _mount(self) -> None:
        device = self._loop.path
        mount(device, self.path, kind=self.kind, options=self._options)
        self._mounted = True
        count = f"/sys/fs/{self.kind}/{os.path.basename(device)}/errors_count"
        if os.path.exists(count):
            with open(count, encoding="ascii") as file:
                found = int(file.read())
            if found:
                raise StorageError(f"{self.kind} itself is damaged: {found} errors", path=self.path)

    def _unmount(self) -> None:
        try:
            unmount(self.path)
        except StorageError as error:
            if error.errno != errno.EBUSY:
                raise
            gc.collect()  # A dead store in a circle of references keeps its segments mapped.
            unmount(self.path)
        self._mounted = False
        self._loop.forget()

    @property
    def _loop(self) -> LoopDevice:
        if self._device is None:
            raise StorageError("the volume has no device", path=self.path)
        return self._device


def _blank_image(size: int) -> int:
    """Make a sparse file in RAM that can neither grow nor shrink."""
    descriptor = os.memfd_create("quiver-volume", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
    return descriptor
