"""What the wheel carries so that Spark finds the sources by itself."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

PROJECT = Path(__file__).parents[2]
MODULES = ("pyspark_quiver.py", "pyspark_quiver_telemetry.py", "pyspark_quiver_view.py")


def test_the_modules_that_spark_looks_for_are_at_the_top_of_the_wheel(tmp_path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=PROJECT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        found = {name: archive.read(name) for name in MODULES}
    assert "quiver/spark/datasource.py" in names
    for name, module in found.items():
        assert module == (PROJECT / "quiver/spark/discovery" / name).read_bytes()
    assert not [name for name in names if name.startswith("tests/")]
