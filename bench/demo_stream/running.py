"""What the queries of all demonstrations have in common: their session, and how they tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bench.demo_stream.telling import say
from quiver.spark import session

__all__ = ["demo_session", "follow"]

_POLL_SECONDS: Final = 0.1


def demo_session(checkpoint: str) -> Any:
    """Start Spark for one query, small and quiet, with its folders beside its checkpoint."""
    return session(
        "quiver demo",
        master="local[2,4]",  # A task whose Python process is killed is done again.
        config={
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
            "spark.log.level": "OFF",
            "spark.local.dir": f"{checkpoint}-local",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": f"{checkpoint}-warehouse",
        },
    )


def follow(query: Any, until: Callable[[], bool] = lambda: False) -> None:
    """Say ``running``, then ``batch N ROWS`` of each batch that had rows, until the query ends."""
    say("running")
    told = -1
    while not query.awaitTermination(_POLL_SECONDS) and not until():
        progress = query.lastProgress
        if progress is not None and progress.batchId > told and progress.numInputRows:
            told = progress.batchId
            say(f"batch {told} {progress.numInputRows}")
