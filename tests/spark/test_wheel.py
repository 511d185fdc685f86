"""What the wheel carries so that Spark finds the source by itself."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

PROJECT = Path(__file__).parents[2]


def test_the_module_that_spark_looks_for_is_at_the_top_of_the_wheel(tmp_path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=PROJECT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        module = archive.read("pyspark_quiver.py")
    assert "quiver/spark/datasource.py" in names
    assert module == (PROJECT / "quiver/spark/discovery/pyspark_quiver.py").read_bytes()
    assert not [name for name in names if name.startswith("tests/")]
