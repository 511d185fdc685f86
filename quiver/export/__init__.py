"""A store's bundles as files for others, each row once, whatever way the exporter ends.

============  ====================================================================
``exporter``  a ready subscriber: take bundles, write files, then ack
``group``     the bundles that the next files will hold
``folder``    where files go: one exporter at a time, and what is there already
``names``     files are named by the bundles that they hold
``formats``   Parquet, Arrow, CSV, NDJSON
``text``      Arrow values as the values of NDJSON and CSV
============  ====================================================================

The order of things: temporary -> sync -> rename -> sync of the folder -> acks. A crash before the
rename leaves a temporary, which the next start removes. A crash behind it, before the last ack,
makes bundles come again; their file says by its name that it has them, and they are acked.
"""

from __future__ import annotations

from quiver.export.exporter import Exporter, Source, Tally
from quiver.export.folder import ExportedFile, ExportFolder
from quiver.export.formats import FORMATS
from quiver.export.names import FileRange

__all__ = [
    "FORMATS",
    "ExportFolder",
    "ExportedFile",
    "Exporter",
    "FileRange",
    "Source",
    "Tally",
]
