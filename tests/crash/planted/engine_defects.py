"""Wrong lines in the order of events: append, finalize, delete, recover."""

from __future__ import annotations

from typing import Final

from planting import Defect

__all__ = ["DEFECTS"]

INGEST: Final = "quiver.engine.ingest"
SEALED: Final = "quiver.engine.sealed"
MAINTENANCE: Final = "quiver.engine.maintenance"
SPACE: Final = "quiver.engine.space"
RECOVERY: Final = "quiver.engine.recovery"
STORE: Final = "quiver.engine.store"
DURABLE: Final = "quiver.engine.durable"
COMMIT: Final = "quiver.engine.commit"

DEFECTS: Final = (
    Defect(
        "an append does not say where it ends",
        INGEST,
        "        core.open_end = core.log.append(bundle)\n",
        "        core.log.append(bundle)\n",
    ),
    Defect(
        "an append does not wait",
        STORE,
        "            self._commit.sync(taken.ticket)\n        elif worker",
        "            pass\n        elif worker",
        lost="write core_0/wal/quiver.wal ",
    ),
    Defect(
        "flush syncs nothing",
        DURABLE,
        "            write_waiting(self._core)\n            self._commit.sync_all()\n",
        "            write_waiting(self._core)\n",
        lost="write core_0/wal/quiver.wal ",
    ),
    Defect(
        "a receipt does not wait",
        "quiver.engine.receipt",
        "        self._store.wait_durable(self._ticket, timeout)\n",
        "",
        lost="write core_0/wal/quiver.wal ",
    ),
    Defect(
        "flush without a log writes no segment",
        DURABLE,
        'durability == "segment":\n            self.finalize()\n        ',
        'durability == "none":\n            self.finalize()\n        ',
    ),
    Defect(
        "the WAL is given back before the segment is written",
        SEALED,
        '    folder = core.path("segments")\n',
        '    folder = core.path("segments")\n    core.log.truncate(sealed.end)\n',
    ),
    Defect(
        "what is sealed may be given back",
        SEALED,
        "    core.writer = threading.get_ident()\n",
        "    core.writer = threading.get_ident()\n    core.covered_end = sealed.end\n",
    ),
    Defect(
        "what is sealed counts as written",
        SEALED,
        "    core.writer = threading.get_ident()\n",
        "    core.writer = threading.get_ident()\n    core.covered_wal_seq = sealed.last_wal_seq\n",
    ),
    Defect(
        "the open segment is not emptied when it is sealed",
        SEALED,
        "    core.open_segment = OpenSegment(core.config.segment)\n",
        "",
    ),
    Defect(
        "a segment counts what joined after it was sealed",
        SEALED,
        "    core.covered_wal_seq = sealed.last_wal_seq\n",
        "    core.covered_wal_seq = core.next_wal_seq - 1\n",
    ),
    Defect(
        "the WAL is given back up to what joined after a seal",
        SEALED,
        "    core.covered_end = sealed.end\n",
        "    core.covered_end = core.open_end\n",
    ),
    Defect(
        "a segment says that the WAL is covered up to what joined after it was sealed",
        SEALED,
        "        wal_generation=sealed.end.generation,\n        wal_offset=sealed.end.offset,\n",
        "        wal_generation=core.open_end.generation,\n"
        "        wal_offset=core.open_end.offset,\n",
        harmless="A place in a segment is a hint, and believed only if the entry there shows that "
        "nothing before it is missing from segments.",
    ),
    Defect(
        "what is sealed is dropped when it cannot be written",
        SEALED,
        "        core.finalize_failure = copy.copy(error)",
        "        core.sealed, core.finalize_failure = None, copy.copy(error)",
    ),
    Defect(
        "what is open is dropped when what is sealed cannot be written",
        SEALED,
        "        core.finalize_failure = copy.copy(error)",
        "        core.open_segment = OpenSegment(core.config.segment)\n"
        "        core.finalize_failure = copy.copy(error)",
    ),
    Defect(
        "a segment that could not be written gets the number of the one before",
        SEALED,
        "        core.finalize_failure = copy.copy(error)",
        "        sealed.segment_seq = max(sealed.segment_seq - 1, 0)\n"
        "        core.finalize_failure = copy.copy(error)",
    ),
    Defect(
        "two segments are sealed at once",
        SEALED,
        "        if core.sealed is None:\n            with core.whole():\n",
        "        if core.open_segment.bundle_count:\n            with core.whole():\n",
    ),
    Defect(
        "an append seals over what is sealed",
        INGEST,
        "is_due = core.sealed is None and core.open_segment",
        "is_due = core.open_segment",
    ),
    Defect(
        "closing writes what is sealed and not what is open",
        MAINTENANCE,
        "    finalize(core, as_closer=True)\n",
        "    if core.sealed is None:\n        finalize(core, as_closer=True)\n    else:\n"
        "        from quiver.engine.sealed import write_sealed\n\n        write_sealed(core)\n",
    ),
    Defect(
        "closing drops what is sealed",
        MAINTENANCE,
        "    finalize(core, as_closer=True)\n",
        "    core.sealed = None\n    finalize(core, as_closer=True)\n",
    ),
    Defect(
        "the first bundle of a segment counts as its last",
        SEALED,
        "        max(last_seq, core.next_wal_seq - 1),\n",
        "        last_seq - core.open_segment.bundle_count + 1,\n",
    ),
    Defect(
        "a number of a segment is used twice",
        SEALED,
        "        core.next_segment_seq = info.segment_seq + 1\n",
        "        core.next_segment_seq = info.segment_seq + len(core.catalog) % 2\n",
    ),
    Defect(
        "a segment whose name may not last is written again",
        SEALED,
        "            core.fault = error\n",
        "            pass\n",
        harmless="The bundles are still in the WAL and in memory, and the same number is written "
        "again over the first. It is readers who could see two versions of one segment.",
    ),
    Defect(
        "a segment is registered although the store was poisoned meanwhile",
        SEALED,
        "            core.check()\n            _register",
        "            _register",
        harmless="The segment is durable all the same, unless it was the sync of its folder that "
        "failed for somebody else, who had deleted another one.",
    ),
    Defect(
        "upkeep gives back what no segment holds",
        SPACE,
        "core.log.truncate(covered_end, apart=apart)\n    except",
        "core.log.truncate(core.open_end, apart=apart)\n    except",
    ),
    Defect(
        "segments are deleted before their outcomes are synced",
        SPACE,
        "    raise_floor(core)\n    sync_acks(core)\n    segment_seqs, refusal",
        "    segment_seqs, refusal",
        harmless="Both lines are for what the two below say; without a size cap a tick does all of "
        "it before or after.",
    ),
    Defect(
        "outcomes are synced with the floor alone before segments are deleted",
        SPACE,
        "    sync_acks(core)\n    segment_seqs, refusal",
        "    segment_seqs, refusal",
        harmless="A tick syncs acks before it deletes, and of a segment that is gone nobody asks "
        "who had it. The sync is for what the size cap drops: the record of that is all there is.",
    ),
    Defect(
        "deleted segments leave no floor",
        SPACE,
        "    raise_floor(core)\n    sync_acks(core)\n    segment_seqs, refusal",
        "    sync_acks(core)\n    segment_seqs, refusal",
        harmless="The reclaim in the same tick raises the floor as well. A cut between the two "
        "brings deleted bundles back, but nobody was told yet that their acks are durable.",
    ),
    Defect(
        "the folder is not synced after segments are deleted",
        "quiver.engine.outcomes",
        '        core.disk.sync_dir(core.path("segments"))\n',
        "        pass\n",
        harmless="A deleted segment that comes back was finished by all, as its outcomes say, and "
        "is deleted again.",
    ),
    Defect(
        "the WAL is given back before the floor is written",
        SPACE,
        'core.config.wal.durability == "segment":\n        raise_floor(core)\n',
        'core.config.wal.durability == "segment":\n        pass\n',
        harmless="The segments tell the same until one is deleted, and then the floor is written "
        "first. It is for damage to the last segment.",
    ),
    Defect(
        "the floor is not synced",
        SPACE,
        "        append(core, [floor, floor])\n        sync_acks(core)\n"
        "        core.floor = floor\n",
        "        append(core, [floor, floor])\n        core.acks_unsynced = False\n"
        "        core.floor = floor\n",
        harmless="Until a segment is deleted the segments tell the same. It is deleted once all "
        "have acked it, and the sync of these acks is one of the same file.",
    ),
    Defect(
        "the floor waits for the next sync",
        SPACE,
        "        sync_acks(core)\n        core.floor = floor\n",
        "        core.floor = floor\n",
        harmless="As above, and what deletes segments syncs it anyway.",
    ),
    Defect(
        "the floor of bundles is one too low",
        SPACE,
        "core.covered_wal_seq + 1)",
        "core.covered_wal_seq)",
    ),
    Defect(
        "the floor of segments is one too low",
        SPACE,
        "floor = Floor(core.next_segment_seq,",
        "floor = Floor(max(core.next_segment_seq - 1, 0),",
    ),
    Defect(
        "the floor of segments is not looked at",
        RECOVERY,
        "next_segment_seq=max(_next_segment_seq(catalog, damaged), floor.next_segment_seq),",
        "next_segment_seq=_next_segment_seq(catalog, damaged),",
    ),
    Defect(
        "the floor of bundles is not looked at",
        RECOVERY,
        "    covered = floor.next_wal_seq - 1\n",
        "    covered = -1\n",
    ),
    Defect(
        "what segments hold is not looked at",
        RECOVERY,
        "        covered = max(covered, catalog.covered_wal_seq)\n",
        "        covered = max(covered, -1)\n",
    ),
    Defect(
        "the newest segment does not count for the next number",
        RECOVERY,
        "    return max((*damaged, *(info.segment_seq for info in catalog)), default=-1) + 1\n",
        "    return max((*damaged, *(info.segment_seq for info in catalog)), default=-1)\n",
    ),
    Defect(
        "the next bundle gets the number of the last",
        RECOVERY,
        "core.next_wal_seq = replay.last_seq + 1",
        "core.next_wal_seq = max(replay.last_seq, 0)",
    ),
    Defect(
        "what was replayed counts as written",
        RECOVERY,
        "    if not any(part.bundle_count for part in core.waiting):\n",
        "    if True:\n",
    ),
    Defect(
        "replayed bundles do not move the end",
        RECOVERY,
        "        core.open_end = end\n",
        "",
        harmless="The place of the next segment's end is then too low, never too high: a later "
        "replay takes longer, and space is given back later.",
    ),
    Defect(
        "the segments folder is not synced at a start",
        RECOVERY,
        'for name in (f"{folder}/segments", folder):',
        "for name in (folder,):",
        lost="rename core_0/segments/",
    ),
    Defect(
        "the core folder is not synced",
        RECOVERY,
        'for name in (f"{folder}/segments", folder):',
        'for name in (f"{folder}/segments",):',
        harmless="The opening of ack.log, which comes next, syncs it too. Each guards the other.",
    ),
    Defect(
        "the root folder is not synced",
        RECOVERY,
        '    disk.sync_dir("")\n    for name in ("segments", "acks", "wal"):\n'
        '        disk.make_dir(f"{folder}/{name}")\n',
        '    for name in ("segments", "acks", "wal"):\n        disk.make_dir(f"{folder}/{name}")\n',
        lost="(make folder core_0|rename quiver.json.tmp) ?",
    ),
    Defect(
        "the segments folder is not synced after a damaged one is moved",
        RECOVERY,
        "    for folder in folders:\n        disk.sync_dir(folder)\n",
        "",
        harmless="No crash damages a segment, and one that comes back is moved again.",
    ),
    Defect(
        "the root folder is synced when there are folders in it",
        RECOVERY,
        '    disk.sync_dir("")\n    for name in ("segments", "acks", "wal"):\n'
        '        disk.make_dir(f"{folder}/{name}")\n',
        '    for name in ("segments", "acks", "wal"):\n        disk.make_dir(f"{folder}/{name}")\n'
        '    disk.sync_dir("")\n',
        lost="rename quiver.json.tmp ",
    ),
    Defect(
        "unfinished files stay in the segments folder",
        RECOVERY,
        '            disk.unlink(f"{segments}/{entry.name}")\n',
        "            pass\n",
    ),
    Defect(
        "upkeep does not sync the WAL",
        STORE,
        "        self._commit.sync_all()\n        self._commit.settle()\n",
        "        self._commit.settle()\n",
        lost="write core_0/wal/quiver.wal ",
    ),
    Defect(
        "closing syncs no acks",
        "quiver.engine.maintenance",
        "_each(core, *outcomes, *rest)",
        "_each(core, settle, fold, keep_house, *(step for step in rest if step != sync_acks))",
        lost="write core_0/acks/ack.log ",
    ),
    Defect(
        "closing writes no segment",
        "quiver.engine.maintenance",
        "_each(core, *outcomes, *rest)",
        "_each(core, *outcomes, *rest[1:])",
    ),
    Defect(
        "closing does not sync the WAL",
        "quiver.engine.maintenance",
        "reclaim, save_ages, sync_log, _tell_refused\n",
        "reclaim, save_ages, _tell_refused\n",
        harmless="All that the WAL has is in a segment by then, or closing raises and promises "
        "nothing.",
    ),
    Defect(
        "a leader does not sync",
        COMMIT,
        "        core.log.sync(end)\n",
        "",
        lost="write core_0/wal/quiver.wal ",
    ),
    Defect(
        "a bundle counts as durable once it is written",
        COMMIT,
        "place <= self._synced or",
        "place <= self._core.log.end or",
        lost="write core_0/wal/quiver.wal ",
    ),
    Defect(
        "a segment has only what was prepared while it was open",
        "quiver.segment.writer",
        "    builder.add(bundles[len(builder.bundles) :], slots)\n",
        "    builder.bundles or builder.add(bundles, slots)\n",
    ),
    Defect(
        "what was prepared for one segment is offered for the next",
        "quiver.engine.sealed",
        "    core.ahead = None\n",
        "",
        harmless="Whoever writes a segment sees that these are other bundles, and begins anew.",
    ),
)
