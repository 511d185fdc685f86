"""The query: ``python -m bench.demo_ship.query URL CHECKPOINT SINK``.

From the queue into Parquet until it is killed; how the object store is reached says the
environment. ``running`` and ``batch N ROWS`` on its standard output say how far it is.
"""

from __future__ import annotations

import os
import sys
from typing import Final

from quiver.spark import session

__all__ = ["SLOT"]

SLOT: Final = "flights"
_POLL_SECONDS: Final = 0.1


def main(url: str, checkpoint: str, sink: str) -> None:
    """Run the query."""
    spark = session(
        "quiver demo",
        master="local[2,4]",
        config={
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
            "spark.log.level": "OFF",
            "spark.local.dir": f"{checkpoint}-local",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": f"{checkpoint}-warehouse",
        },
    )
    options = {"slot": SLOT, "checkpointLocation": checkpoint, "sink": sink}
    frame = spark.readStream.format("quiver").options(**options).load(url)
    writer = frame.writeStream.format("parquet").option("path", sink)
    writer = writer.option("checkpointLocation", checkpoint)
    query = writer.trigger(processingTime="500 milliseconds").start()
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
