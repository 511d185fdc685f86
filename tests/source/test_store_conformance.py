"""Connector ``quiver`` keeps what every connector has to keep."""

from __future__ import annotations

from contextlib import closing

import pyarrow as pa
import pytest

import quiver
from quiver.manifest import StoreManifest
from quiver.source.stores import Position, StoreConnector
from quiver.source.stores.position import encode
from quiver.testing.source_conformance import SourceConformance


class StoreRig:
    """Two cores, few rows to a bundle, a few bundles to a segment, some without the slot."""

    columns = ("number", "text")
    patience = 5.0

    def __init__(self, path) -> None:
        self._path, self._fed = path, 0
        self.feed(0)
        self.connector = StoreConnector(path, "events")
        self._enumerator = self.connector.enumerator()

    def feed(self, rows: int) -> None:
        for core in range(2):
            with quiver.open(
                self._path, slots=["events", "others"], core=core, worker=False
            ) as store:
                share = rows // 2 + (rows % 2 if core else 0)
                for first in range(0, share, 3):
                    count = min(3, share - first)
                    numbers = range(self._fed, self._fed + count)
                    self._fed += count
                    texts = [None if n % 4 == 0 else f"row {n}" for n in numbers]
                    store.append({"events": pa.table({"number": list(numbers), "text": texts})})
                    if first % 4 == 0:
                        store.append({"others": pa.table({"x": [first]})})
                    if first % 5 == 0:
                        store.finalize()

    def list_splits(self):
        return self._enumerator.list_splits()

    def bad_states(self):
        store_id = StoreManifest.read(self._enumerator._disk).store_id
        sound = encode(Position(1, 1), store_id)
        return [
            encode(Position(1, 1), "0" * 32),
            sound.replace('"segment_seq":1', '"segment_seq":-1'),
            sound.replace('"bundle_index":1', '"bundle_index":"1"'),
            sound.replace('"bundle_index":1', '"more":1'),
        ]

    def close(self) -> None:
        self._enumerator.close()
        self.connector.close()


class TestStores(SourceConformance):
    @pytest.fixture
    def rig(self, tmp_path):
        with closing(StoreRig(tmp_path / "store")) as rig:
            yield rig
