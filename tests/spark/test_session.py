"""What a session changes in the environment while it starts, and what it leaves alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import quiver.spark
from quiver.spark.session import _defaults, _environment, _variables

LOOK_UP = """
import io
from pyspark.serializers import UTF8Deserializer, read_int
from pyspark.sql.worker import lookup_data_sources

lookup_data_sources._main(None, found := io.BytesIO())
found.seek(0)
for _ in range(read_int(found)):
    print(UTF8Deserializer().loads(found))
    found.read(read_int(found))
"""


def _java(home: Path, modules: str) -> str:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (home / "release").write_text(f'JAVA_VERSION="21.0.1"\nMODULES="{modules}"\n')
    return str(home)


def test_spark_is_told_which_python_which_address_and_which_java(tmp_path) -> None:
    home = _java(tmp_path / "jdk", "java.base jdk.incubator.vector")
    assert _variables({"JAVA_HOME": home}) == {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "JAVA_HOME": home,
    }


def test_what_is_set_already_is_honoured(tmp_path) -> None:
    home = _java(tmp_path / "jdk", "java.base jdk.incubator.vector")
    given = {"JAVA_HOME": home, "PYSPARK_PYTHON": "/opt/python", "SPARK_LOCAL_IP": "10.0.0.1"}
    assert _variables(given) == given


def test_a_slim_java_is_started_through_its_launcher(tmp_path) -> None:
    home = _java(tmp_path / "jdk", "java.base")
    cache = tmp_path / "cache"
    found = _variables({"JAVA_HOME": home, "XDG_CACHE_HOME": str(cache)})["JAVA_HOME"]
    assert found.startswith(f"{cache}/quiver/java-")
    assert f"exec {home}/bin/java" in Path(found, "bin", "java").read_text()


def test_the_environment_is_as_it_was_even_after_an_error() -> None:
    environment = {"JAVA_HOME": "old", "OTHER": "x"}
    variables = {"JAVA_HOME": "new", "SPARK_LOCAL_IP": "127.0.0.1"}
    with pytest.raises(RuntimeError), _environment(environment, variables):
        assert environment == {"OTHER": "x", **variables}
        raise RuntimeError
    assert environment == {"JAVA_HOME": "old", "OTHER": "x"}


@pytest.mark.parametrize(("master", "is_local"), [("local[*]", True), ("spark://host:7077", False)])
def test_only_a_local_session_writes_checkpoints_as_local_disks_like_it(master, is_local) -> None:
    key = "spark.sql.streaming.checkpointFileManagerClass"
    assert (key in _defaults(master)) is is_local


def test_spark_finds_all_formats_by_itself() -> None:
    home = Path(quiver.spark.__file__).parent
    places = [str(home / "discovery"), str(home.parents[1]), *sys.path]
    done = subprocess.run(
        [sys.executable, "-c", LOOK_UP],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert sorted(done.stdout.split()) == ["quiver", "quiver-telemetry", "quiver-view"]
