"""Values of arrays by their buffers, against what Arrow's own way gives; and pandas stays away."""

from __future__ import annotations

import datetime as dt
import importlib.util
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import quiver
from quiver.arrays import integers, truths

KINDS = [pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.uint32(), pa.int64()]
TIME = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SLICES = st.tuples(st.integers(0, 20), st.integers(0, 20))


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(values=st.lists(st.integers(0, 127), max_size=20), part=SLICES)
def test_integers_are_those_of_the_array(kind, values, part):
    array = pa.array(values, kind).slice(min(part[0], len(values)), part[1])
    found = integers(array)
    assert found.dtype == np.int64
    assert found.tolist() == array.to_pylist()


@given(values=st.lists(st.booleans(), max_size=40), part=SLICES)
def test_truths_are_those_of_the_array(values, part):
    array = pa.array(values, pa.bool_()).slice(min(part[0], len(values)), part[1])
    found = truths(array)
    assert found.dtype == np.bool_
    assert found.tolist() == array.to_pylist()


LIFE = """
import sys
import quiver
from quiver.cli.program import program

with quiver.open(sys.argv[1], slots=["a"]) as store:
    reader = store.subscribe("reader")
    while (bundle := reader.poll()) is not None:
        assert bundle["a"].num_rows == 2
        bundle.ack()
    store.maintain()
assert program.run(["check", sys.argv[1]]) == 0
print("pandas" in sys.modules)
"""


@pytest.mark.skipif(importlib.util.find_spec("pandas") is None, reason="pandas is not here")
def test_who_reads_and_checks_does_not_load_pandas(tmp_path):
    with quiver.open(tmp_path / "store", slots=["a"]) as store:
        for _ in range(3):
            store.append({"a": pa.table({"n": [1, None], "s": ["x", "y"], "t": [TIME, None]})})
        store.finalize()
    done = subprocess.run(
        [sys.executable, "-c", LIFE, str(tmp_path / "store")],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout.splitlines()[-1] == "False"
