"""The test kit: what Quiver is tested with, shipped so that others can test their stores with it.

====================  ============================================================================
``manual_clock``      a clock that stands still until it is told otherwise
``memory_disk``       a disk in RAM that records each act, fills up and fails on demand
``acts``              what was done to a disk, as values that can be replayed
``file_tree``         the files in RAM that acts change
``crash_images``      from a recorded history, all that a power cut may leave on a disk
``subject``           what the harness asks of a store: lives to lead, and a judge
``campaign``          lead lives, enumerate crashes, judge them; ``runner`` on many processes
``shrink``            make a crash that breaks a promise as plain as it can be
``rehearsal``         a Quiver store driven step by step; ``lives`` of it, by hand and by lot
``facts``             what a store had promised by the time of a crash
``progress``          lives of a store that reads a source, and what it must say of that
``meanwhile``         lets other things happen in the middle of writing a segment
``oracle``            what a crash may not do to a Quiver store
``real``              power cuts of real file systems, and kills of real processes
``arrow_mutants``     Arrow bytes made wrong by somebody who knows how they are built
``arrow_zoo``         sound Arrow streams and files of many types, to begin with
``children``          run inputs in forked children with limits, and count how they end
``strategies``        Hypothesis strategies for schemas, batches and bundles (needs hypothesis)
``drawn_types``       those for types: everything that Arrow's format can keep
``drawn_values``      those for arrays, from buffers, with odd things under nulls
``same``              whether two batches are the same, bit by bit
====================  ============================================================================

``CRASHTEST.md`` shows how to aim the harness at another store. Nothing in the package imports this
folder but the verb ``quiver crashtest``.
"""

from quiver.testing.acts import Mark, Op
from quiver.testing.campaign import Campaign, Chapter, Failure, Plan
from quiver.testing.crash_images import Image, Model, crash_images
from quiver.testing.file_tree import History
from quiver.testing.manual_clock import ManualClock
from quiver.testing.memory_disk import MemoryDisk
from quiver.testing.recorder import Fault, Killed
from quiver.testing.subject import Loss, Stage, Subject

__all__ = [
    "Campaign",
    "Chapter",
    "Failure",
    "Fault",
    "History",
    "Image",
    "Killed",
    "Loss",
    "ManualClock",
    "Mark",
    "MemoryDisk",
    "Model",
    "Op",
    "Plan",
    "Stage",
    "Subject",
    "crash_images",
]
