"""Rows become finished segment files beside the cores: durable, bounded, and seen by no reader.

They have numbers of their own, which an intake replaces. Whoever stages takes no lock and no core:
it may run many times at once, be killed, or be one of two that do the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from quiver.clock import Clock
from quiver.config import Config
from quiver.disk import Disk, remove
from quiver.engine.encoding import Encoder
from quiver.engine.numbers import STAGING, core_bytes, core_numbers, staged_bytes
from quiver.errors import CapacityError, MissingError, QuiverError
from quiver.manifest import StoreManifest
from quiver.payload import EncodedBundle
from quiver.segment import OpenSegment, SegmentLabel, write_segment
from quiver.sink.names import Job
from quiver.units import format_bytes

__all__ = ["Stage", "Staged", "gone"]

_HINT: Final = "let subscribers ack, or raise retention.size_cap; nothing was taken in"
_DROP_HINT: Final = (
    "drop_oldest drops for what is let in, not for what is staged and may never be: write smaller "
    "batches, let subscribers ack, or raise retention.size_cap; nothing was taken in"
)


def gone(disk: Disk, path: str) -> MissingError:
    """Say that a file which was staged, or was about to be, went as garbage."""
    where = disk.locate(path)
    return MissingError(
        f"{where} is gone: it was staged, and removed since",
        path=where,
        hint="another run of this sink, or quiver gc, took it for garbage; repeat the job",
    )


@dataclass(frozen=True, slots=True)
class Staged:
    """What one task has staged of a job: its files in order, and what is in them."""

    job: Job
    files: tuple[str, ...]
    bundle_count: int
    row_count: int
    file_bytes: int


class Stage:
    """Takes the bundles of one task. Memory holds at most one segment of them.

    ``task`` tells this attempt of this task from all others of the job. What is on the disk counts
    for ``retention.size_cap`` of the configuration, together with all else in the store's folder.
    """

    def __init__(self, disk: Disk, job: Job, task: str, *, config: Config, clock: Clock) -> None:
        """Stage into the store on ``disk``; raises MissingError if there is none."""
        self._manifest = StoreManifest.read(disk)
        self._disk, self._job, self._task = disk, job, task
        self._config, self._clock = config, clock
        self._encoder = Encoder(self._manifest.slots, config)
        self._open = OpenSegment(config.segment)
        self._files: list[str] = []
        self._bundle_count = self._row_count = self._file_bytes = 0

    def add(self, bundle: Mapping[str, Any]) -> None:
        """Take a bundle, and write a file when there is enough for one.

        Raises InputError for a bundle that the store cannot take, and CapacityError if there is no
        room. What was staged before stays until ``discard``.
        """
        payloads = self._encoder.encode(bundle)
        now = self._clock.monotonic_ns()
        self._open.add(EncodedBundle(self._open.bundle_count, 0, payloads), now)
        self._bundle_count += 1
        self._row_count += sum(payload.row_count for payload in payloads)
        if self._open.is_full:
            self._write()

    def finish(self) -> Staged:
        """Write the rest; when this returns everything staged survives a power cut."""
        if self._open.bundle_count:
            self._write()
        return Staged(
            self._job,
            tuple(self._files),
            self._bundle_count,
            self._row_count,
            self._file_bytes,
        )

    def discard(self) -> None:
        """Take back what was staged, as far as the disk allows; the rest is found by ``tidy``."""
        for path in self._files:
            with suppress(QuiverError):
                remove(self._disk, path)

    def _write(self) -> None:
        self._check_room()
        self._disk.make_dir(STAGING)
        self._disk.sync_dir("")
        number = len(self._files)
        name = f"{self._job.prefix}{self._task}.{number}.qseg"
        self._files.append(f"{STAGING}/{name}")  # Before it is there: a failure is taken back too.
        try:
            info = write_segment(
                self._disk,
                STAGING,
                self._open.encoded(),
                label=SegmentLabel(number, self._manifest.store_id, 0, self._manifest.slots, 0, 0),
                config=self._config.segment,
                trusted=True,
                name=name,
            )
        except MissingError as error:
            raise gone(self._disk, f"{STAGING}/{name}") from error
        self._file_bytes += info.file_bytes
        self._open = OpenSegment(self._config.segment)

    def _check_room(self) -> None:
        """Raise CapacityError if the next file would pass the cap, which many share."""
        cap, incoming = self._config.retention.size_cap, self._open.payload_bytes
        if not cap:
            return
        cores = sum(core_bytes(self._disk, number) for number in core_numbers(self._disk))
        used = cores + staged_bytes(self._disk)
        if used + incoming > cap:
            drops = self._config.retention.size_cap_policy == "drop_oldest"
            raise CapacityError(
                f"the store is full: {format_bytes(used)} are in {self._disk.locate('')}, what is "
                f"staged among it, and {format_bytes(incoming)} more pass the cap of "
                f"{format_bytes(cap)}",
                hint=_DROP_HINT if drops else _HINT,
            )
