"""The query: ``python -m bench.demo_ship.query URL CHECKPOINT SINK``.

From the queue into Parquet until it is killed; how the object store is reached says the
environment. ``running`` and ``batch N ROWS`` on its standard output say how far it is.
"""

from __future__ import annotations

import sys
from typing import Final

from bench.demo_stream.running import demo_session, follow

__all__ = ["SLOT"]

SLOT: Final = "flights"


def main(url: str, checkpoint: str, sink: str) -> None:
    """Run the query."""
    spark = demo_session(checkpoint)
    options = {"slot": SLOT, "checkpointLocation": checkpoint, "sink": sink}
    frame = spark.readStream.format("quiver").options(**options).load(url)
    writer = frame.writeStream.format("parquet").option("path", sink)
    writer = writer.option("checkpointLocation", checkpoint)
    follow(writer.trigger(processingTime="500 milliseconds").start())


if __name__ == "__main__":
    main(*sys.argv[1:4])
