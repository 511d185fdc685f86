"""Wrong lines in what a store says of the sources that it follows."""

from __future__ import annotations

from typing import Final

from planting import Defect

__all__ = ["DEFECTS"]

SEALED: Final = "quiver.engine.sealed"
SAVING: Final = "quiver.engine.saving"
RECOVERY: Final = "quiver.engine.recovery"
INGEST: Final = "quiver.engine.ingest"

DEFECTS: Final = (
    Defect(
        "progress is saved before its segment is there",
        SEALED,
        "            with core.unlocked():\n                info = _write_with_reserve",
        "            core.progress.cover(sealed.progress)\n"
        "            try_save_progress(core)\n"
        "            with core.unlocked():\n                info = _write_with_reserve",
    ),
    Defect(
        "progress is saved with what is open",
        SAVING,
        "        core.progress.covered,\n",
        "        core.progress.latest(None),\n",
    ),
    Defect(
        "a segment goes before its progress is saved",
        SAVING,
        "    if not needed:\n        return segment_seqs, None\n",
        "    if needed or not needed:\n        return segment_seqs, None\n",
    ),
    Defect(
        "a segment does not say how far its sources were read",
        SEALED,
        'progress=sealed.progress.encode() if sealed.progress else b"",',
        'progress=b"",',
    ),
    Defect(
        "segments that are newer than the saved progress are not asked",
        SAVING,
        "        if is_unknown(info, content.wal_seq):\n",
        "        if is_unknown(info, 1 << 60):\n",
    ),
    Defect(
        "the progress of recovered bundles is forgotten",
        RECOVERY,
        "            take_recovered(core, core.progress.take, bundle.wal_seq, note=bundle.note)\n",
        "            pass\n",
    ),
    Defect(
        "a bundle leaves its progress behind when it is sealed",
        SEALED,
        "        core.progress.seal(),\n",
        "        type(core.progress.seal())(),\n",
    ),
    Defect(
        "progress is no part of the entry",
        INGEST,
        "now_ns, payloads, _note(core, progress))\n",
        "now_ns, payloads, None)\n",
    ),
    Defect(
        "progress is taken before there is room for the bundle",
        INGEST,
        "    byte_count = entry_bytes(payloads, note)\n",
        "    byte_count = entry_bytes(payloads, note)\n"
        "    if note:\n        core.progress.take(core.next_wal_seq, note)\n",
    ),
    Defect(
        "unfinished progress stays",
        SAVING,
        "        remove(core.disk, core.path(name + TEMPORARY))\n",
        "        pass\n",
        harmless="What a crash left unfinished is written again by the opening, over what is left.",
    ),
)
