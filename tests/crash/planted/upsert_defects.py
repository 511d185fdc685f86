"""Wrong lines in collections of upserts: in what is appended, read, folded, forgotten and deleted.

Kills of real processes look for them, see ``bench.upsert_kills``: no disk is cut here.
"""

from __future__ import annotations

from typing import Final

from planting import Defect

__all__ = ["DEFECTS"]

ACTS: Final = "quiver.upsert.tending.acts"
CHANGING: Final = "quiver.upsert.persist.changing"
GARBAGE: Final = "quiver.upsert.tending.garbage"
READING: Final = "quiver.upsert.persist.reading"
RULES: Final = "quiver.upsert.tending.rules"
STATE: Final = "quiver.upsert.persist.state"
TEND: Final = "quiver.upsert.tending.tend"
WRITER: Final = "quiver.upsert.persist.writer"

DEFECTS: Final = (
    Defect(
        "a writer that was fenced goes on",
        WRITER,
        "        if current != self.fence:\n",
        "        if False:\n",
    ),
    Defect(
        "the manifest is put whatever is there by now",
        CHANGING,
        "self._store.put_if(MANIFEST_KEY, encode_manifest(wanted), state[1])",
        "self._store.put(MANIFEST_KEY, encode_manifest(wanted))",
    ),
    Defect(
        "an append is in without its sources",
        WRITER,
        "            sources={**manifest.sources, **sources},\n",
        "            sources={**sources, **manifest.sources},\n",
    ),
    Defect(
        "an append whose answer was lost is made again as the next epoch",
        WRITER,
        "                made = made and _is_in(own, named, sources or {})\n"
        "                return None\n",
        "                epoch_is_in = True\n",
    ),
    Defect(
        "a manifest names runs before they are put",
        "quiver.upsert.persist.writing",
        "        store.write(name, self._pieces(tables))\n",
        "        import threading\n        late = [name, list(self._pieces(tables))]\n"
        "        threading.Timer(0.05, store.write, args=late).start()\n",
    ),
    Defect(
        "a look-up asks the oldest run first",
        STATE,
        "for ref in reversed(self._runs) if",
        "for ref in self._runs if",
    ),
    Defect(
        "a base is older than it says",
        ACTS,
        "rows_as_of(store, snapshot, act.bucket, epoch=act.epoch)",
        "rows_as_of(store, snapshot, act.bucket, epoch=max(act.epoch - 1, snapshot.since))",
    ),
    Defect(
        "a fold drops the history too",
        TEND,
        '    return [ref for ref in act.files if act.kind == "merge" or ref.kind == "base"]\n',
        "    return list(act.files)\n",
    ),
    Defect(
        "one epoch too many is forgotten",
        RULES,
        "if run.last <= since",
        "if run.last <= since + 1",
    ),
    Defect(
        "what is dropped is deleted at once",
        GARBAGE,
        "if moment.store_ms - each.wall_ms >= moment.grace_ms]",
        "if True]",
    ),
    Defect(
        "a sweep deletes what is named",
        TEND,
        "orphans(listed, named_by(snapshot.manifest), moment)\n"
        "    failed: set[str] = set()\n"
        "    if found and not dry_run:\n"
        "        # Whoever else could name them is fenced; this writer gives its word.\n"
        "        never = writer.give_up(each.key for each in found)\n"
        "        found = [each for each in found if each.key in never]\n",
        "orphans(listed, set(), moment)\n"
        "    failed: set[str] = set()\n"
        "    if found and not dry_run:\n",
    ),
    Defect(
        "a sweep chooses what is named",
        GARBAGE,
        " or minted_ms is None or each.key in named:\n",
        " or minted_ms is None:\n",
        harmless="the writer is asked once more before anything is deleted, and gives none away",
    ),
    Defect(
        "a read as of an old epoch takes the last change behind it",
        READING,
        "        edge[1:] = ~near\n",
        "        edge[:-1] = ~near\n",
    ),
)
