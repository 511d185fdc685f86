"""The query: ``python -m bench.demo_stream.query STORE CHECKPOINT SINK``.

From the store into Parquet, as the subscriber ``spark``, until it is killed. ``running`` and
``batch N ROWS`` on its standard output say how far it is.
"""

from __future__ import annotations

import sys

from bench.demo_stream.running import demo_session, follow

__all__ = ["SUBSCRIBER", "main"]

SUBSCRIBER = "spark"


def main(store: str, checkpoint: str, sink: str) -> None:
    """Run the query."""
    spark = demo_session(checkpoint)
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
    follow(writer.trigger(processingTime="200 milliseconds").start())


if __name__ == "__main__":
    main(*sys.argv[1:4])
