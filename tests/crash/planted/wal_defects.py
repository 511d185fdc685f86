"""Wrong lines in the write-ahead log."""

from __future__ import annotations

from typing import Final

from planting import Defect

__all__ = ["DEFECTS"]

LOG: Final = "quiver.wal.log"
WRITER: Final = "quiver.wal.writer"
REPLAY: Final = "quiver.wal.replay"
FILES: Final = "quiver.wal.files"
READER: Final = "quiver.wal.reader"
START: Final = "quiver.wal.start"
FORMAT: Final = "quiver.wal.format"
BEGIN: Final = "quiver.wal.begin"
RESUME: Final = "quiver.wal.resume"

DEFECTS: Final = (
    Defect(
        "the WAL is never synced",
        WRITER,
        "                self._file.sync()\n",
        "                pass\n",
        lost="write core_0/wal/quiver.wal ",
    ),
    Defect(
        "flush and rotation sync nothing of the WAL",
        WRITER,
        "wanted = self.end if offset is None",
        "wanted = self._synced if offset is None",
        lost="write core_0/wal/quiver.wal ",
    ),
    Defect(
        "an append waits for the place before it",
        LOG,
        "writer.sync(place.offset)",
        "writer.sync(place.offset - 1000)",
        lost="write core_0/wal/quiver.wal ",
    ),
    Defect(
        "a failed sync of the WAL is tried again",
        WRITER,
        "                self.fault = error\n                raise self._poisoned() from error\n",
        "                raise self._poisoned() from error\n",
        lost="write core_0/wal/quiver.wal ",
    ),
    Defect(
        "a rotation that fails is tried again",
        LOG,
        "            old.poison(error)\n            raise\n        self._rotated",
        "            raise\n        self._rotated",
    ),
    Defect(
        "a short write to the WAL is not rolled back",
        WRITER,
        "        self._file.truncate(self.end)\n",
        "        self.end = self._file.size()\n",
    ),
    Defect(
        "a short write is rolled back one byte too far",
        WRITER,
        "self._file.truncate(self.end)\n",
        "self._file.truncate(self.end - 1)\n",
    ),
    Defect(
        "the header of a new WAL file is not synced",
        BEGIN,
        "else tail(file, len(head))\n        file.sync()\n",
        "else tail(file, len(head))\n",
        lost="write core_0/wal/quiver.wal.tmp ",
    ),
    Defect(
        "the name of a new WAL file is not synced",
        BEGIN,
        "    disk.rename(prepared.path, path)\n    disk.sync_dir(folder)\n",
        "    disk.rename(prepared.path, path)\n",
        lost="rename core_0/wal/quiver.wal.tmp ",
    ),
    Defect(
        "a WAL file is rotated without a sync",
        LOG,
        "        old.sync()\n",
        "",
        lost="write core_0/wal/quiver.wal ",
    ),
    Defect(
        "the folder is not synced between the renames of a rotation",
        LOG,
        "            self._disk.sync_dir(self._folder)\n            generation =",
        "            generation =",
        lost="rename core_0/wal/quiver.wal ",
    ),
    Defect(
        "a rotated file is renamed behind the new one",
        LOG,
        "            generation = old.generation + 1\n",
        "            generation = old.generation\n",
    ),
    Defect(
        "a checkpoint entry tells of one bundle too many",
        BEGIN,
        "head + encode_checkpoint(last_seq, truncated)",
        "head + encode_checkpoint(last_seq + 1, truncated)",
    ),
    Defect(
        "a rotated file that is still needed is deleted",
        LOG,
        "if old.generation < place.generation]",
        "if old.generation <= place.generation]",
    ),
    Defect(
        "all rotated files are deleted",
        LOG,
        "for old in self._rotated if old.generation < place.generation]",
        "for old in self._rotated]",
    ),
    Defect(
        "the folder is not synced after rotated files are deleted",
        LOG,
        "        if covered:\n            self._disk.sync_dir(self._folder)\n",
        "",
        harmless="A rotated file that comes back holds what segments hold, and is deleted again. "
        "It may come back before the sync as well.",
    ),
    Defect(
        "rotated files are deleted before the sidecar is written",
        LOG,
        "        if place > self._truncated:\n"
        "            write_sidecar(self._disk, self._folder, place)\n"
        "            self._truncated = place\n"
        "        spares = self._spares.put_aside(covered)\n"
        "        for old in covered:\n"
        "            if old not in spares:\n"
        "                with apart():  # To free a large file takes tens of milliseconds.\n"
        '                    remove(self._disk, f"{self._folder}/{rotated_name(old.generation)}")\n'
        "            self._rotated = [each for each in self._rotated if each is not old]\n",
        "        spares = self._spares.put_aside(covered)\n"
        "        for old in covered:\n"
        "            if old not in spares:\n"
        "                with apart():  # To free a large file takes tens of milliseconds.\n"
        '                    remove(self._disk, f"{self._folder}/{rotated_name(old.generation)}")\n'
        "            self._rotated = [each for each in self._rotated if each is not old]\n"
        "        if place > self._truncated:\n"
        "            write_sidecar(self._disk, self._folder, place)\n"
        "            self._truncated = place\n",
        harmless="The newest segment tells the generation as well. Where both are gone a wrong one "
        "is counted on from, and no place of another file is believed.",
    ),
    Defect(
        "a hole reaches over what segments hold",
        LOG,
        "writer.punch(first_of(writer), end)",
        "writer.punch(first_of(writer), writer.end)",
    ),
    Defect(
        "the hole begins at the start of the file",
        LOG,
        "writer.punch(first_of(writer), end)",
        "writer.punch(0, end)",
    ),
    Defect(
        "each hole begins where the last one ended",
        LOG,
        "writer.punch(first_of(writer), end)",
        "writer.punch(self._reclaimed, end)",
    ),
    Defect(
        "holes end in the middle of an entry",
        LOG,
        "            end = min(",
        "            end = offset if self._reclaimed + 20 > offset else self._reclaimed + 20\n"
        "            end = end or min(",
    ),
    Defect(
        "the sidecar is written in place",
        "quiver.wal.truncate",
        '    replace(disk, f"{folder}/{SIDECAR_NAME}", encode_sidecar(place))\n',
        '    name = f"{folder}/{SIDECAR_NAME}"\n'
        "    file = disk.open(name, writable=True) if disk.stat(name) else disk.create(name)\n"
        "    file.write(0, encode_sidecar(place))\n"
        "    file.sync()\n"
        "    disk.sync_dir(folder)\n",
    ),
    Defect(
        "bundles that segments hold are replayed",
        REPLAY,
        "            skipped = min(max(covered + 1 - item.first_seq, 0), count)\n",
        "            skipped = 0\n",
    ),
    Defect(
        "the last bundle that a segment holds is replayed",
        REPLAY,
        "max(covered + 1 - item.first_seq, 0)",
        "max(covered - item.first_seq, 0)",
    ),
    Defect(
        "the first bundle behind the segments is not replayed",
        REPLAY,
        "max(covered + 1 - item.first_seq, 0)",
        "max(covered + 2 - item.first_seq, 0)",
    ),
    Defect(
        "numbers do not go on behind what is replayed",
        REPLAY,
        "self.last_seq = max(self.last_seq, wal_seq)",
        "self.last_seq = max(self.last_seq, -1)",
    ),
    Defect(
        "numbers start afresh with an empty WAL",
        REPLAY,
        "self.last_seq = -1 if covered_seq is None else covered_seq",
        "self.last_seq = -1",
    ),
    Defect(
        "a replay starts at any place without a look at what is before it",
        START,
        "        return last_before <= self.covered\n",
        "        return self.covered >= 0\n",
    ),
    Defect(
        "a replay starts behind the first entry that is needed",
        START,
        "        return last_before <= self.covered\n",
        "        return last_before <= self.covered + 1\n",
    ),
    Defect(
        "generations start afresh when no rotated file is left",
        FILES,
        "return [], max((number for number in named if 1 <= number <= GENERATION_MAX), default=1)",
        "return [], 1",
        harmless="The number of the active file then disagrees with sidecar and segments, whose "
        "places are not believed: the replay starts at the front and drops what segments hold.",
    ),
    Defect(
        "rotated files are not replayed",
        REPLAY,
        "last_seq = -1\n        for generation in (*self._generations, self._active):",
        "last_seq = -1\n        for generation in (self._active,):",
    ),
    Defect(
        "a replay reads what a failed sync gave up",
        REPLAY,
        "                    file.settle()",
        "                    file.sync()",
        lost="write core_0/wal/quiver.wal ",
    ),
    Defect(
        "a replay does not sync what it reads",
        REPLAY,
        "        self._settle()\n",
        "",
        lost="write core_0/wal/quiver.wal ",
    ),
    Defect(
        "the cut behind the last entry is not synced",
        RESUME,
        "whoever is told about it must be able to rely on it.\n    file.sync()\n",
        "whoever is told about it must be able to rely on it.\n",
        harmless="What was read was settled before. A cut that the power takes back is made again "
        "at the next start, and the first append that is synced makes it durable.",
    ),
    Defect(
        "the name of a WAL file that ends in damage is not synced",
        RESUME,
        '        disk.rename(path, f"{folder}/{rotated_name(found.generation)}")\n'
        "        disk.sync_dir(folder)\n",
        '        disk.rename(path, f"{folder}/{rotated_name(found.generation)}")\n',
        lost="rename core_0/wal/quiver.wal ",
    ),
    Defect(
        "what is left of an append is not cut",
        RESUME,
        "        file.truncate(end)\n",
        "        pass\n",
    ),
    Defect(
        "the cut behind the last entry takes a byte of it",
        RESUME,
        "        file.truncate(end)\n",
        "        file.truncate(end - 1)\n",
    ),
    Defect(
        "the cut behind the last entry takes all entries",
        RESUME,
        "        file.truncate(end)\n",
        "        file.truncate(HEADER_BYTES)\n",
    ),
    Defect(
        "the names in the WAL folder are not synced at a start",
        REPLAY,
        "        disk.sync_dir(folder)\n        self._remove_leftovers()",
        "        self._remove_leftovers()",
        lost="rename core_0/wal/quiver.wal.tmp ",
    ),
    Defect(
        "unfinished files stay in the WAL folder",
        REPLAY,
        "        self._remove_leftovers()\n        sidecar",
        "        sidecar",
    ),
    Defect(
        "the first bad entry ends the WAL",
        READER,
        "    found = _next_entry(data, offset, last_seq)\n",
        "    found = data.size\n",
    ),
    Defect(
        "a hole is taken for the end of the WAL",
        READER,
        "    if offset in (HEADER_BYTES, data.first):\n",
        "    if offset == 0:\n",
    ),
    Defect(
        "the checksum of an entry is not looked at",
        FORMAT,
        "    if (found := crc32c(body)) ^ expected not in masks:",
        "    if (found := crc32c(body)) == -1:",
    ),
    Defect(
        "an entry may be as short as nothing",
        FORMAT,
        "if not HEAD.size <= length <= entry_bytes_max:",
        "if not 0 <= length <= entry_bytes_max:",
    ),
    Defect(
        "a sequence may go back inside the WAL",
        READER,
        "    return frame.wal_seq > last_seq or frame.entry_type != BUNDLE\n",
        "    return frame.wal_seq >= 0\n",
        harmless="Nothing writes a lower sequence behind a higher one; the look is for damage, and "
        "for what another program wrote.",
    ),
)
