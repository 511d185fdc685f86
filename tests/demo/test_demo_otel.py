"""What the demo of telemetry reads while an exporter is just beginning to write."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.demo_otel.parquet import line_numbers
from bench.demo_otel.sink import LINE_NUMBER


@pytest.mark.parametrize("folder", ["", "log_attrs", "log_attrs/date=2013-01-01"])
def test_before_the_first_file_there_is_no_line(tmp_path, folder):
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    assert line_numbers(str(tmp_path)).tolist() == []


def test_lines_are_those_of_all_files_and_of_no_other_attribute(tmp_path):
    day = tmp_path / "log_attrs" / "date=2013-01-01"
    day.mkdir(parents=True)
    for number in range(2):
        table = pa.table({"key": [LINE_NUMBER, "other"], "str": [str(number), "x"]})
        pq.write_table(table, day / f"part-{number}.parquet")
    (tmp_path / "log_attrs" / "date=2013-01-02").mkdir()
    assert sorted(line_numbers(str(tmp_path)).tolist()) == [0, 1]
