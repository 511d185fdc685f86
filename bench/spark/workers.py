"""A session whose Python workers find this package too."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import SparkSession

from quiver.spark import session


def bench_session() -> SparkSession:
    """Start one; workers import the sources of ``bench.spark`` by their names."""
    root = str(Path(__file__).parents[2])
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = root if before is None else os.pathsep.join([root, before])
    return session("bench", config={"spark.log.level": "ERROR"})
