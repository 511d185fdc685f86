"""Sync all that any process of this machine has written."""

from __future__ import annotations

import os

__all__ = ["sync_everything"]


def sync_everything() -> None:
    """Return once everything that was written before is on its disks, whoever wrote it.

    It costs what is not on the disks yet, of all of them, and tells of no failure: for files that
    are known by name ``File.sync`` is to be preferred.
    """
    os.sync()
