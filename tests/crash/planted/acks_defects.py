"""Wrong lines in ack.log, its checkpoint, and what is known of subscribers."""

from __future__ import annotations

from typing import Final

from planting import Defect

__all__ = ["DEFECTS"]

LOG: Final = "quiver.acks.log"
OPENING: Final = "quiver.acks.opening"
REPLAY: Final = "quiver.acks.replay"
FORMAT: Final = "quiver.acks.format"
OUTCOMES: Final = "quiver.engine.outcomes"
REGISTRY: Final = "quiver.subscriber.registry"
MEMBER: Final = "quiver.subscriber.member"

DEFECTS: Final = (
    Defect(
        "ack.log is never synced",
        LOG,
        "        try:\n            file.sync()\n        except",
        "        try:\n            pass\n        except",
        lost="write core_0/acks/ack.log ",
    ),
    Defect(
        "a failed sync of ack.log is tried again",
        LOG,
        "            self._failure = error\n            raise\n        self._unsynced = False\n\n"
        "    def checkpoint",
        "            raise\n        self._unsynced = False\n\n    def checkpoint",
        harmless="The engine stops as well. Each guards the other.",
    ),
    Defect(
        "the cut of ack.log is not synced",
        LOG,
        "            file.truncate(self._end)\n            file.sync()\n",
        "            file.truncate(self._end)\n",
        lost="write core_0/acks/ack.log ",
    ),
    Defect(
        "numbers of records stand still",
        LOG,
        "        self._last_seq += len(data) // FRAME_SIZE\n        self._unsynced",
        "        self._unsynced",
    ),
    Defect(
        "a short write to ack.log is not rolled back",
        LOG,
        "                self._cut()\n            raise\n",
        "                self._end = file.size()\n            raise\n",
    ),
    Defect(
        "ack.log starts afresh before the checkpoint is there",
        LOG,
        "        replace(self._disk, self._checkpoint_path, data)\n"
        "        self._snapshot_seq_min = seq\n"
        "        if self._base_seq <= seq:\n"
        "            self._restart(seq + 1, rest)\n",
        "        self._snapshot_seq_min = seq\n"
        "        if self._base_seq <= seq:\n"
        "            self._restart(seq + 1, rest)\n"
        "        replace(self._disk, self._checkpoint_path, data)\n",
    ),
    Defect(
        "records go on into the ack.log that was replaced",
        LOG,
        "        self.close()\n        self._file = file\n        self._base_seq",
        "        file.close()\n        self._base_seq",
    ),
    Defect(
        "a torn end of ack.log is not cut",
        LOG,
        "            log._cut()\n",
        "            pass\n",
    ),
    Defect(
        "ack.log is read as a failed sync left it in memory",
        OPENING,
        "            file.settle()\n",
        "            file.sync()\n",
    ),
    Defect(
        "ack.log is not synced before it is read",
        OPENING,
        "        if settle:\n",
        "        if settle is None:\n",
        lost="write core_0/acks/ack.log ",
    ),
    Defect(
        "the names in the acks folder are not synced at a start",
        OPENING,
        "        disk.unlink(posixpath.join(folder, entry.name))\n    disk.sync_dir(folder)\n",
        "        disk.unlink(posixpath.join(folder, entry.name))\n",
        lost="rename core_0/acks/",
    ),
    Defect(
        "the name of the acks folder is not synced",
        OPENING,
        "    disk.make_dir(folder)\n    disk.sync_dir(posixpath.dirname(folder))\n",
        "    disk.make_dir(folder)\n",
        harmless="The recovery has synced the core folder just before. For the quarantine folder "
        "it is the only sync, and only damage gets there.",
    ),
    Defect(
        "unfinished files stay in the acks folder",
        OPENING,
        "        disk.unlink(posixpath.join(folder, entry.name))\n",
        "        pass\n",
    ),
    Defect(
        "records that the checkpoint covers are applied again",
        REPLAY,
        "(self._seqs[piece] > covered)",
        "(self._seqs[piece] > 0)",
        harmless="All records since the last checkpoint, in order, over what they led to, lead to "
        "the same again.",
    ),
    Defect(
        "the first record behind the checkpoint is skipped",
        REPLAY,
        "(self._seqs[piece] > covered)",
        "(self._seqs[piece] > covered + 1)",
    ),
    Defect(
        "the checksum of a record is not looked at",
        FORMAT,
        "    if stored != actual:\n",
        "    if stored == -1:\n",
        harmless="A frame that the power cut short has 0 where its checksum would be, and is "
        "known by that. The checksum is for rot.",
    ),
    Defect(
        "the checkpoint leaves out the last subscriber",
        OUTCOMES,
        "for snapshot in core.registry.snapshot())",
        "for snapshot in core.registry.snapshot()[:1])",
    ),
    Defect(
        "the checkpoint leaves out what was acked above a gap",
        OUTCOMES,
        "s.runs) for s in snapshot.segments),",
        "s.runs[:1]) for s in snapshot.segments),",
    ),
    Defect(
        "the checkpoint leaves out what was acked above the floor",
        MEMBER,
        "                for seq in progress.begun_segments()\n",
        "                for seq in progress.begun_segments()[1:]\n",
    ),
    Defect(
        "the checkpoint's floor is one too high",
        MEMBER,
        "            progress.floor,\n",
        "            progress.floor + 1,\n",
    ),
    Defect(
        "the checkpoint knows no numbers that are used up",
        OUTCOMES,
        "    floor = Floor(core.next_segment_seq, core.covered_wal_seq + 1)\n",
        "    floor = Floor(core.covered_wal_seq * 0)\n",
    ),
    Defect(
        "a floor of the log takes the place of a higher one",
        OUTCOMES,
        "                max(floor.next_segment_seq, record.next_segment_seq),",
        "                min(floor.next_segment_seq, record.next_segment_seq),",
    ),
    Defect(
        "an ack is written as two",
        "quiver.engine.delivery",
        "[Ack(claim.subscriber_id, *run, now)]",
        "[Ack(claim.subscriber_id, *run[:2], claim.count + 1, now)]",
    ),
    Defect(
        "a nack is replayed as an ack",
        REGISTRY,
        "member.replay_nack(bundle, nack.attempt, nack.not_before_ns, at_ns=nack.at_ns)\n",
        "member.resolve(*bundle, 1)\n",
    ),
    Defect(
        "a new subscriber is not synced",
        "quiver.engine.lifecycle",
        "    core.outlet.append([register, register, *more])\n    sync_acks(core)\n",
        "    core.outlet.append([register, register, *more])\n",
        lost="write core_0/acks/ack.log ",
    ),
    Defect(
        "a subscriber who left is not synced",
        "quiver.engine.going",
        "Unregister(subscriber_id, core.clock.wall_ns())])\n        sync_acks(core)\n",
        "Unregister(subscriber_id, core.clock.wall_ns())])\n",
        lost="write core_0/acks/ack.log ",
    ),
    Defect(
        "a tick syncs no acks",
        "quiver.engine.maintenance",
        "    outcomes = fold, remove_orphans, sync_acks\n",
        "    outcomes = fold, remove_orphans\n",
        lost="write core_0/acks/ack.log ",
    ),
    Defect(
        "acks do not say that there is something to sync",
        OUTCOMES,
        "    core.acks.append(records)\n    core.acks_unsynced = True\n",
        "    core.acks.append(records)\n",
        lost="write core_0/acks/ack.log ",
    ),
    Defect(
        "a segment with one open bundle counts as finished",
        REGISTRY,
        "        if not member.progress.outstanding(segment_seq):\n",
        "        if member.progress.outstanding(segment_seq) == 1:\n",
    ),
    Defect(
        "a segment that one subscriber has finished counts as finished",
        REGISTRY,
        "        self._needed[segment_seq] -= 1\n        if not self._needed[segment_seq]:\n"
        "            del self._needed[segment_seq]\n",
        "        self._needed.pop(segment_seq, None)\n",
    ),
)
