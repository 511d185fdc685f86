"""The collection in a folder or an object store: files that never change, and one manifest.

===============  ==========================================================================
``format``       the bytes of the manifest, pure; ``FORMAT.md`` has the tables
``soundness``    what every manifest keeps, pure
``definitions``  schemas to bytes and back, and how values grow wider
``snapshot``     what a collection was at one moment
``order``        the order of rows in files
``gathering``    rows of a table in another order, however large it is
``writing``      data files written
``opened``       data files read and checked, once in a process
``state``        what keys have now
``ranges``       files parted by hash, to be read in bounded memory
``reading``      rows as of an epoch, and what changed between two
``changing``     how the manifest is changed, against all who do so
``writer``       the one who appends; who opens the next one fences it
``collection``   a place in a store, opened
===============  ==========================================================================

::

    collection = Collection.open(open_bucket(url), definition, create=True)
    writer = collection.writer()
    snapshot = writer.snapshot()
    looked = State(store, snapshot, bucket).lookup(hashes, keys)       # in any process
    ref = write_run(store, snapshot, diffs, bucket=bucket)             # in any process
    writer.append([ref], snapshot.upper, sources={"name": Source(...)})

Epoch 0 is the empty collection: a new one has ``since`` 0 and ``upper`` 1.
"""

from quiver.upsert.persist.changing import MANIFEST_KEY
from quiver.upsert.persist.collection import Collection
from quiver.upsert.persist.definitions import widen
from quiver.upsert.persist.format import Dropped, FileRef, Manifest, Source
from quiver.upsert.persist.opened import close_all, keep_open
from quiver.upsert.persist.reading import changes, rows_as_of
from quiver.upsert.persist.snapshot import Snapshot
from quiver.upsert.persist.state import State, WholeState
from quiver.upsert.persist.writer import Appended, Writer
from quiver.upsert.persist.writing import write_base, write_run

__all__ = [
    "MANIFEST_KEY",
    "Appended",
    "Collection",
    "Dropped",
    "FileRef",
    "Manifest",
    "Snapshot",
    "Source",
    "State",
    "WholeState",
    "Writer",
    "changes",
    "close_all",
    "keep_open",
    "rows_as_of",
    "widen",
    "write_base",
    "write_run",
]
