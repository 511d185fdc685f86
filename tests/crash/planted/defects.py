"""All defects, room by room. Names are unique; they are what the tests and the table say."""

from __future__ import annotations

from typing import Final

import acks_defects
import consumer_defects
import disk_defects
import engine_defects
import forgoing_defects
import outgoing_defects
import progress_defects
import retention_defects
import reuse_defects
import wal_defects
from planting import Defect

__all__ = ["ALL", "DEFECTS", "HARMLESS"]

ALL: Final[tuple[Defect, ...]] = (
    *wal_defects.DEFECTS,
    *reuse_defects.DEFECTS,
    *disk_defects.DEFECTS,
    *acks_defects.DEFECTS,
    *consumer_defects.DEFECTS,
    *retention_defects.DEFECTS,
    *engine_defects.DEFECTS,
    *outgoing_defects.DEFECTS,
    *progress_defects.DEFECTS,
    *forgoing_defects.DEFECTS,
)
HARMLESS: Final = tuple(defect for defect in ALL if defect.harmless)
DEFECTS: Final = tuple(defect for defect in ALL if not defect.harmless)
