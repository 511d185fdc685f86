"""The query: ``python -m bench.demo_stream.query STORE CHECKPOINT SINK``.

From the store into Parquet, as the subscriber ``spark``, until it is killed. ``running`` and
``batch N ROWS`` on its standard output say how far it is.
"""

from __future__ import annotations

import os
import sys

from quiver.spark import session

__all__ = ["SUBSCRIBER", "main"]

SUBSCRIBER = "spark"
_POLL_SECONDS = 0.1


def main(store: str, checkpoint: str, sink: str) -> None:
    """Run the query."""
    spark = session(
        "quiver demo",
        master="local[2,4]",  # A task whose Python process is killed is done again.
        config={
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
            "spark.log.level": "OFF",
            "spark.local.dir": f"{checkpoint}-local",
            "spark.sql.warehouse.dir": f"{checkpoint}-warehouse",
        },
    )
    options = {
        "slot": "events",
        "subscriber": SUBSCRIBER,
        "checkpointLocation": checkpoint,
        "sink": sink,
        "maxSegmentsPerTrigger": "100",
        "schemaChange": "ignore",
    }
    frame = spark.readStream.format("quiver").options(**options).load(store)
    writer = frame.writeStream.format("parquet").option("path", sink)
    writer = writer.option("checkpointLocation", checkpoint)
    query = writer.trigger(processingTime="200 milliseconds").start()
    _say("running")
    told = -1
    while not query.awaitTermination(_POLL_SECONDS):
        progress = query.lastProgress
        if progress is not None and progress.batchId > told and progress.numInputRows:
            told = progress.batchId
            _say(f"batch {told} {progress.numInputRows}")


def _say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


if __name__ == "__main__":
    main(*sys.argv[1:4])
