"""The test kit: what Quiver is tested with, shipped so that whoever embeds it can do the same.

====================  ============================================================================
``manual_clock``      a clock that stands still until it is told otherwise
``memory_disk``       a disk in RAM that records each act, fills up and fails on demand
``acts``              what was done to a disk, as values that can be replayed
``file_tree``         the files in RAM that acts change
``crash_images``      from a recorded history, all that a power cut may leave on a disk
``strategies``        Hypothesis strategies for schemas, batches and bundles (needs hypothesis)
====================  ============================================================================

Nothing in the package imports this folder.
"""

from quiver.testing.acts import Mark, Op
from quiver.testing.crash_images import Image, Model, crash_images
from quiver.testing.file_tree import History
from quiver.testing.manual_clock import ManualClock
from quiver.testing.memory_disk import MemoryDisk
from quiver.testing.recorder import Fault

__all__ = [
    "Fault",
    "History",
    "Image",
    "ManualClock",
    "Mark",
    "MemoryDisk",
    "Model",
    "Op",
    "crash_images",
]
