"""What Java's tasks were at: its own flight recorder, asked through the session."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

PERIOD_MS = 5
_EVENTS = ("jdk.ExecutionSample", "jdk.NativeMethodSample")
_WAITS = ("EPoll.wait", "Net.poll", "Unsafe.park")
# The first rule that names a part of a frame, from the task down, says what a sample is of.
STAGES = (
    ("write Parquet", ("ParquetOutputWriter.write", "ParquetOutputWriter.close")),
    ("read the socket", ("ReaderInputStream.", "SocketDispatcher.", "SocketChannelImpl.")),
    ("load Arrow's vectors", ("ArrowStreamReader.", "ArrowOutputProcessor", "VectorLoader.")),
    ("decode Parquet", ("VectorizedParquetRecordReader.", "ParquetFileFormat", "FileScanRDD")),
    ("Arrow to rows", ("SpecificUnsafeProjection.", "ColumnarBatchRow.", "ArrowColumnVector.")),
    ("count rows for metrics", ("TaskState.", "InputMetrics.", "CustomMetrics")),
    ("hand on row by row", ("PartitionIterator.", "MetricsIterator.", "PythonPartitionReader")),
    ("rows written by generated code", ("UnsafeRowWriter.", "UnsafeWriter.", "ColumnVector.")),
)
REST = "the rest"


class Flight:
    """A recording, from ``start`` to ``stop``."""

    def __init__(self, spark: Any) -> None:
        """Make one in the Java of a session."""
        self._java = spark._jvm  # noqa: SLF001
        self._recording = self._java.jdk.jfr.Recording()
        for event in _EVENTS:
            settings = self._recording.enable(event)
            settings.withPeriod(self._java.java.time.Duration.ofMillis(PERIOD_MS))

    def start(self) -> None:
        """Begin."""
        self._recording.start()

    def discard(self) -> None:
        """End, and keep nothing."""
        self._recording.stop()
        self._recording.close()

    def stop(self, file: Path) -> list[list[str]]:
        """End, and give the frames of each sample of a task that did not wait, innermost first."""
        self._recording.stop()
        self._recording.dump(self._java.java.io.File(str(file)).toPath())
        self._recording.close()
        java = Path(self._java.java.lang.System.getProperty("java.home")) / "bin" / "java"
        command = [str(java), "-m", "jdk.jfr/jdk.jfr.internal.tool.Main", "print", "--json"]
        command += ["--stack-depth", "64", "--events", ",".join(_EVENTS), str(file)]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        values = (event["values"] for event in json.loads(text)["recording"]["events"])
        return [frames for value in values if (frames := _frames(value))]


def stages(samples: list[list[str]]) -> Counter[str]:
    """Count samples by stage."""
    return Counter(_stage(frames) for frames in samples)


def _stage(frames: list[str]) -> str:
    for name, marks in STAGES:
        if any(mark in frame for frame in frames for mark in marks):
            return name
    return REST


def _frames(value: dict[str, Any]) -> list[str]:
    thread = value["sampledThread"] or {}
    is_task = (thread.get("javaName") or "").startswith("Executor task")
    if not is_task or not value["stackTrace"]:
        return []
    frames = [_name(frame["method"]) for frame in value["stackTrace"]["frames"]]
    return [] if frames[0] in _WAITS else frames


def _name(method: dict[str, Any]) -> str:
    kind = method["type"]["name"].replace("/", ".").rpartition(".")[2]
    return f"{kind}.{method['name']}"
