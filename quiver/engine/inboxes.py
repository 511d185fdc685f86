"""The folder of a core's inboxes, and what becomes of one whose subscriber goes."""

from __future__ import annotations

from quiver.acks.letterbox import INBOX_FOLDER, list_inbox, remove_inbox
from quiver.engine.core import Core

__all__ = ["forget_inbox", "inbox_folder"]


def inbox_folder(core_folder: str) -> str:
    """Name the folder of a core's inboxes."""
    return f"{core_folder}/acks/{INBOX_FOLDER}"


def forget_inbox(core: Core, name: str) -> None:
    """Remove the inbox of a subscriber who is gone, or starts over.

    A process that still goes on as that subscriber learns of it when it misses the file.
    """
    folder = inbox_folder(core.folder)
    if any(stat.name == name for stat in list_inbox(core.disk, folder)):
        remove_inbox(core.disk, folder, name)
    core.folded.pop(name, None)
    core.own_leases.discard(name)
