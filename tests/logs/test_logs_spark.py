"""What a Spark read tells: what it plans to read, and what it leaves out because it is lost."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from store_kit import writer


def _events(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "quiver.spark"]


def test_a_plan_is_told_and_so_is_each_segment_that_is_lost(tmp_path, caplog) -> None:
    spark = pytest.importorskip("quiver.spark")
    caplog.set_level("INFO", "quiver.spark")
    bundle = {"logs": pa.record_batch({"n": [1]})}
    store = writer(tmp_path / "store")([bundle], [bundle])
    source = spark.QuiverDataSource({"path": store, "slot": "logs", "failOnDataLoss": "false"})
    reader = source.reader(source.schema())
    (partition,) = reader.partitions()
    assert _events(caplog) == ["spark.planned"]
    planned = caplog.records[-1]
    assert (planned.partition_count, planned.segment_count, planned.row_count) == (1, 2, 2)
    Path(store, "core_0", "segments", f"{0:016}.qseg").unlink()
    assert sum(batch.num_rows for batch in reader.read(partition)) == 1
    assert _events(caplog) == ["spark.planned", "spark.segment_lost"]
    assert (caplog.records[-1].core, caplog.records[-1].segment_seq) == (0, 0)
