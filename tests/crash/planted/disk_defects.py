"""Wrong lines where whole files are written: segments, and what is replaced in one step."""

from __future__ import annotations

from typing import Final

from planting import Defect

__all__ = ["DEFECTS"]

REPLACE: Final = "quiver.disk.replace"

FILE_SYNC: Final = "        file.sync()\n        file.close()\n"
FOLDER_SYNC: Final = "    disk.sync_dir(posixpath.dirname(path))\n"


def no_file_sync(what: str, ending: str) -> Defect:
    """Leave out the sync of new files whose path ends so."""
    line = f'        path.endswith("{ending}") or file.sync()\n        file.close()\n'
    name = f"{what} is not synced before its rename"
    return Defect(name, REPLACE, FILE_SYNC, line, lost=rf"write \S*{ending}.tmp ")


def no_folder_sync(what: str, ending: str, harmless: str = "") -> Defect:
    """Leave out the sync of the folder behind the rename of files whose path ends so."""
    line = f'    path.endswith("{ending}") or disk.sync_dir(posixpath.dirname(path))\n'
    name = f"the name of {what} is not synced"
    return Defect(name, REPLACE, FOLDER_SYNC, line, harmless, rf"rename \S*{ending}.tmp ")


DEFECTS: Final = (
    no_file_sync("a segment", ".qseg"),
    no_file_sync("the sidecar", "truncate.offset"),
    no_file_sync("the checkpoint", "checkpoint"),
    no_file_sync("a new ack.log", "ack.log"),
    no_file_sync("the manifest", "quiver.json"),
    no_folder_sync("a segment", ".qseg"),
    no_folder_sync(
        "the sidecar",
        "truncate.offset",
        "The sidecar is a hint. With an older one, or none, the replay starts further "
        "ahead, skips the hole and drops what segments hold.",
    ),
    no_folder_sync("the checkpoint", "checkpoint"),
    no_folder_sync("a new ack.log", "ack.log"),
    no_folder_sync(
        "the manifest",
        "quiver.json",
        "The recovery, which comes next, syncs the same folder before there is anything to lose.",
    ),
    Defect(
        "files are renamed before they are synced",
        REPLACE,
        "        file.sync()\n        file.close()\n        disk.rename(temporary, path)\n",
        "        disk.rename(temporary, path)\n        file.sync()\n        file.close()\n",
    ),
    Defect(
        "files are written under their own name",
        REPLACE,
        "    temporary = path + TEMPORARY\n",
        "    temporary = path\n",
    ),
    Defect(
        "small new files are not synced",
        REPLACE,
        "        file.sync()\n",
        "        offset < 1000 or file.sync()\n",
        lost="write ",
    ),
    Defect(
        "the name of the quarantine folder is not synced",
        "quiver.disk.quarantine",
        "    disk.make_dir(folder)\n    disk.sync_dir(posixpath.dirname(folder))\n",
        "    disk.make_dir(folder)\n",
        harmless="Only damage gets there, and a cut in half an append tells nothing that anybody "
        "was promised.",
    ),
    Defect(
        "copies that a killed process made are not synced",
        "quiver.disk.quarantine",
        "        disk.sync_dir(folder)  # Whoever wrote them may have been killed before.\n",
        "",
        harmless="As above: nobody was promised what a cut takes.",
    ),
    Defect(
        "what segments hold is known of the oldest alone",
        "quiver.segment.catalog",
        "return max(ends, default=None)",
        "return min(ends, default=None)",
    ),
    Defect(
        "a segment says that it holds less than it does",
        "quiver.segment.contents",
        "wal_seq_last=int(wal_seqs.max()),",
        "wal_seq_last=int(wal_seqs.min()),",
    ),
    Defect(
        "the checksum of a footer is not looked at",
        "quiver.segment.format",
        "    if expected != found:",
        "    if expected == -1:",
        harmless="A segment is synced before it has its name, so that no crash leaves a part of "
        "one. The checksum is for rot.",
    ),
    Defect(
        "the manifest is written in place",
        "quiver.manifest",
        'replace(disk, MANIFEST_NAME, (json.dumps(fields, indent=2) + "\\n").encode())',
        'disk.create(MANIFEST_NAME).write(0, (json.dumps(fields, indent=2) + "\\n").encode())',
    ),
)
