"""What this process holds open of a folder.

A count of all descriptors would not do: what other tests left behind goes whenever Python sees
fit, and gRPC's threads open and close what they like.
"""

from __future__ import annotations

import os
from pathlib import Path


def files_held(folder: Path) -> list[str]:
    """List what is open at and below a folder, deleted or not, once for each descriptor."""
    return sorted(link for _, link in _open() if _is_below(link, folder))


def held(folder: Path) -> set[tuple[str, str]]:
    """Return the descriptors of files at and below a folder, of pipes and of inotify."""
    return {
        (number, link)
        for number, link in _open()
        if _is_below(link, folder) or link.startswith("pipe:") or "inotify" in link
    }


def _open() -> list[tuple[str, str]]:
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append((number, os.readlink(f"/proc/self/fd/{number}")))
        except FileNotFoundError:  # That of the list itself.
            continue
    return found


def _is_below(link: str, folder: Path) -> bool:
    return f"{link}/".startswith(f"{folder.resolve()}/")
