"""The README's line for Spark, as it stands there."""

from __future__ import annotations

import pytest
import readme_tools

import quiver


@pytest.mark.spark
def test_the_line_gives_the_rows_of_the_slot(spark, tmp_path, monkeypatch) -> None:
    line = readme_tools.tools()["Spark"].line
    monkeypatch.chdir(tmp_path)
    with quiver.open("store", slots=["events"], worker=False) as store:
        for first in (0, 2):
            store.append(readme_tools.bundle(first))
            store.finalize()
    frame = eval(line.replace('"store"', repr(str(tmp_path / "store"))), {"spark": spark})
    found = sorted(frame.toArrow().to_pylist(), key=lambda row: row["id"])
    assert found == quiver.scan("store", slot="events").to_table().to_pylist()
