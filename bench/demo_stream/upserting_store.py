"""A query that upserts a store: ``python -m bench.demo_stream.upserting_store STORE ...``.

Behind it come CHECKPOINT, COLLECTION, and the way that batches go: ``driver``, ``tasks`` or
``shares``. A segment is a micro-batch. ``running``, ``batch N ROWS`` and ``way NAME`` on its
standard output say how far it is, and by which way the first batch went.
"""

from __future__ import annotations

import logging
import sys
from typing import Final

from bench.demo_stream.running import demo_session, follow
from bench.demo_stream.telling import say
from quiver.spark import upsert
from quiver.spark.upsert import ways

__all__ = ["WAYS", "main"]

WAYS: Final = ("driver", "tasks", "shares")


class _Teller(logging.Handler):
    """Says which way a batch went."""

    def emit(self, record: logging.LogRecord) -> None:
        """Look at an event."""
        if record.getMessage() == "spark.batch_upserted":
            say(f"way {record.__dict__['way']}")


def main(store: str, checkpoint: str, collection: str, way: str) -> None:
    """Run the query."""
    if way != "driver":
        ways.DRIVER_BYTES = -1
    if way == "shares":
        ways.TASKS_BYTES = -1
    events = logging.getLogger("quiver.spark")
    events.setLevel(logging.INFO)
    events.addHandler(_Teller())
    spark = demo_session(checkpoint)
    options = {"slot": "commands", "includeMetadata": "true", "maxSegmentsPerTrigger": "1"}
    stream = spark.readStream.format("quiver").options(**options).load(store)
    writer = upsert(
        stream,
        key="id",
        value="n",
        delete_when="op = 'd'",
        into=collection,
        buckets=3,
        history=1000,
        checkpoint=checkpoint,
    )
    follow(writer.trigger(processingTime="50 milliseconds").start())


if __name__ == "__main__":
    main(*sys.argv[1:5])
