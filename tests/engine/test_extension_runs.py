"""Bundles whose schemas differ in an extension type's parameter alone are not put under one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import quiver


class Unit(pa.ExtensionType):
    """As users write them: without an ``__eq__``, of which few know that it is needed."""

    def __init__(self, unit: str) -> None:
        self.unit = unit
        super().__init__(pa.int64(), "test.unit.of.runs")

    def __arrow_ext_serialize__(self) -> bytes:
        return self.unit.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Unit:
        return cls(serialized.decode())


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    pa.register_extension_type(Unit(""))
    yield
    pa.unregister_extension_type("test.unit.of.runs")


def measured(unit: str, first: int) -> dict[str, pa.RecordBatch]:
    values = pa.ExtensionArray.from_storage(Unit(unit), pa.array([first, first + 1], pa.int64()))
    return {"a": pa.record_batch([values], names=["d"])}


@pytest.mark.parametrize("dictionaries", ["unite", "keep"])
def test_no_value_comes_in_another_unit(tmp_path: Path, dictionaries: str) -> None:
    folder = tmp_path / "s"
    config = {"segment": {"dictionaries": dictionaries}}
    units = ["m", "m", "ft", "m", "ft", "ft"]
    with quiver.open(folder, slots=["a"], config=config, worker=False) as store:
        runs, singles = store.subscribe("runs"), store.subscribe("singles")
        for number, unit in enumerate(units):
            store.append(measured(unit, 10 * number))
        store.finalize()
        wanted = [10 * number + each for number in range(len(units)) for each in (0, 1)]
        scanned = quiver.scan(folder, slot="a").to_table().column(0)
        assert scanned.type == pa.int64()
        assert scanned.to_pylist() == wanted
        run = runs.poll_run(10)
        assert run is not None
        column = run.table("a").column(0)
        assert column.type == pa.int64(), "metres and feet have no type in common but their storage"
        assert column.to_pylist() == wanted
        run.ack()
        found = []
        while (bundle := singles.poll()) is not None:
            found.append(bundle["a"].schema.field(0).type.unit)
            bundle.ack()
        assert found == units
