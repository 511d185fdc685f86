"""The power goes while a query commits: every row is in the sink once, or still in the store.

Spark syncs nothing, so a cut may leave any of its files short, or not there. Whoever then does what
STREAMING.md says loses nothing and doubles nothing, and without that the query goes on only where
nothing is missing. ``QUIVER_STREAM_CUTS`` says how many cuts; ``make crash`` makes many.
"""

from __future__ import annotations

import os

import pyarrow as pa
import pytest

from quiver.errors import ConfigError, DamagedEntry
from quiver.testing import MemoryDisk, crash_images
from quiver.testing.crash_images import Image
from tests.kit.stream_machine import Query, new_store, plug_in, rows_of, take_back, torn

CUTS = int(os.environ.get("QUIVER_STREAM_CUTS", "250"))
APPENDS = 6


@pytest.fixture(scope="module")
def disk() -> MemoryDisk:
    """Stream six bundles, a segment and a batch each; what was committed is acked and deleted."""
    disk = MemoryDisk()
    with pytest.MonkeyPatch.context() as patch:
        plug_in(disk, patch)
        store = new_store(disk)
        store.append({"s": pa.table({"n": [0]})})
        store.finalize()
        disk.mark("0")
        query = Query(disk)
        for number in range(1, APPENDS):
            query.step()
            store.append({"s": pa.table({"n": [number]})})
            store.finalize()
            disk.mark(str(number))
            store.maintain()
        query.run()
        store.maintain()
        assert rows_of(disk) == list(range(APPENDS))
        assert store.info().segments == 0, "what was committed was acked, and is gone"
    return disk


def _keeps_sizes(image: Image) -> bool:
    """Whether a file of the sink has its whole size only where its bytes are on the disk.

    ext4 and XFS see to that; elsewhere nothing short of reading it all would tell.
    """
    if image.torn is None or image.torn[1].kind == "head":
        return True
    return "part-" not in str(image.history.ops[image.torn[0]])


def test_whenever_the_power_goes_each_row_is_in_the_sink_once(disk: MemoryDisk) -> None:
    first = next(n for n, op in enumerate(disk.history.ops) if str(op).startswith("mark"))
    points = range(first + 1, len(disk.history.ops) + 1)
    refused = taken_back = 0
    images = crash_images(disk.history, model="journaled", budget=CUTS, points=points)
    for image in filter(_keeps_sizes, images):
        left = image.disk()
        with pytest.MonkeyPatch.context() as patch:
            plug_in(left, patch)
            store = new_store(left)
            try:
                if is_torn := torn(left):
                    take_back(left)
                    taken_back += 1
                try:
                    Query(left).run()
                except (DamagedEntry, ConfigError):
                    assert not is_torn, "what was taken back is whole"
                    refused += 1
                    left.forget_locks()
                    take_back(left)
                    Query(left).run()
                sent = len(image.marks)
                found = rows_of(left)
                assert found == list(range(len(found))), image.describe()
                assert sent <= len(found) <= sent + 1, image.describe()
            finally:
                store.close()
    assert refused
    assert taken_back
