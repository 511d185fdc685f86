"""Wrong lines in what writes log files over, and in what reads such files."""

from __future__ import annotations

from typing import Final

from planting import Defect

__all__ = ["DEFECTS"]

BEGIN: Final = "quiver.wal.begin"
CONTENT: Final = "quiver.wal.content"
LOG: Final = "quiver.wal.log"
RESUME: Final = "quiver.wal.resume"
REUSE: Final = "quiver.wal.reuse"
SPARES: Final = "quiver.wal.spares"
WRITER: Final = "quiver.wal.writer"

DEFECTS: Final = (
    Defect(
        "checksums of all generations are the same",
        REUSE,
        "    return generation * _FACTOR & _ALL_BITS or 1\n",
        "    return 7 + 0 * generation\n",
        harmless="Numbers only grow, so what is older is not believed anyway, unless somebody had "
        "appended a log as data: tests/wal/test_wal_reuse.py does.",
    ),
    Defect(
        "no mark is written behind what is appended",
        WRITER,
        "[*rest, mark])",
        "rest) + len(mark)",
    ),
    Defect(
        "the mark is not looked at",
        CONTENT,
        "        return any(has_tag(data, mask) for mask in self._masks) or ",
        "        return False and ",
    ),
    Defect(
        "an append that was never finished is damage where a file was used before",
        "quiver.wal.reader",
        "    is_torn |= data.was_never_finished(region.offset, region.end)\n",
        "",
        harmless="Damage is no surprise where a write was cut: tests/wal/test_wal_reuse_ways.py.",
    ),
    Defect(
        "the mark goes before what is appended is there",
        WRITER,
        "        byte_count = write_parts(self._file, self.end + MARK_BYTES, [*rest, mark])\n"
        "        self._file.write(self.end, first)\n",
        "        self._file.write(self.end, first)\n"
        "        byte_count = write_parts(self._file, self.end + MARK_BYTES, [*rest, mark])\n",
        harmless="Without a mark further on an append was never finished, and is cut.",
    ),
    Defect(
        "what is refused is not taken back where a file was used before",
        WRITER,
        "        self._file.truncate(self.end + MARK_BYTES)\n        self._size = 0\n        self.",
        "        self._size = 0\n        self.",
        harmless="The mark still stands before what was written, and the next append is over it.",
    ),
    Defect(
        "the mark that a refused append went over does not come back",
        WRITER,
        "        self._file.write(self.end, self._mark)\n",
        "",
        harmless="What was refused left its tag, which says as much.",
    ),
    Defect(
        "a spare is made of a file that segments do not hold",
        LOG,
        "        spares = self._spares.put_aside(covered)\n",
        "        spares = self._spares.put_aside(self._rotated)\n"
        "        covered += [old for old in spares if old not in covered]\n",
    ),
    Defect(
        "the beginning of a file that is used again is not synced",
        BEGIN,
        "        file.write(0, head)\n        file.sync()\n        return Prepared(path, FIRST",
        "        file.write(0, head)\n        return Prepared(path, FIRST",
        lost="write core_0/wal/quiver.wal.spare-",
    ),
    Defect(
        "a spare is written to before its name is durable",
        LOG,
        "        if covered:\n"
        "            self._disk.sync_dir(self._folder)\n"
        "        self._spares.keep(spares)\n",
        "        self._spares.keep(spares)\n",
        harmless="What is written to it is durable before the renames of the rotation, whose "
        "syncs are for this name as well, and no bundle comes before these.",
    ),
    Defect(
        "a file that is used again is begun as that of an earlier generation",
        LOG,
        "head = encode_beginning(self._digest, generation, last_seq",
        "head = encode_beginning(self._digest, generation - 1, last_seq",
    ),
    Defect(
        "a file that is used again says of one bundle too many that it is before it",
        LOG,
        "head = encode_beginning(self._digest, generation, last_seq,",
        "head = encode_beginning(self._digest, generation, last_seq + 1,",
    ),
    Defect(
        "what is older behind the end stays when a store is opened",
        RESUME,
        "tail.is_torn or (found.own is not None and not found.is_wrong):",
        "tail.is_torn:",
        harmless="What a power cut left behind a mark has a number that is given out again, and "
        "only a search behind damage comes upon it: tests/wal/test_wal_reuse.py.",
    ),
    Defect(
        "an opening leaves no mark",
        RESUME,
        "        file.write(end, encode_mark(found.last_seq, mask_of(found.own)))\n",
        "        pass\n",
    ),
    Defect(
        "spares of a killed writer stay",
        "quiver.wal.replay",
        " or is_spare(name):",
        ":",
        harmless="They cost room, and no more: tests/wal/test_wal_reuse.py.",
    ),
    Defect(
        "a file that is used again keeps its old end",
        LOG,
        "RotatedFile(old.generation, old.file_bytes, old.end)",
        "RotatedFile(old.generation, old.file_bytes, old.file_bytes)",
        harmless="Where a segment ends with such a file, it stays until the next one is written.",
    ),
)
