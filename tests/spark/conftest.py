from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from store_kit import writer

from quiver.spark import session

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a store of slots ``logs`` and ``metrics``: each list of bundles becomes a segment."""
    return writer(tmp_path / "store")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session for all tests: a JVM takes seconds to start."""
    folder = tmp_path_factory.mktemp("spark")
    made = session(
        "quiver tests",
        master="local[2]",
        config={
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
            "spark.driver.memory": "1g",
            "spark.local.dir": str(folder / "local"),
            "spark.log.level": "ERROR",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
        },
    )
    yield made
    made.stop()
