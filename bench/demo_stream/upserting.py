"""A query that upserts: ``python -m bench.demo_stream.upserting FILES CHECKPOINT COLLECTION``.

From files of JSON, one for each micro-batch, until it is killed. ``running`` and ``batch N ROWS``
on its standard output say how far it is.
"""

from __future__ import annotations

import sys

from bench.demo_stream.running import demo_session, follow
from quiver.spark import upsert

__all__ = ["main"]


def main(files: str, checkpoint: str, collection: str) -> None:
    """Run the query."""
    spark = demo_session(checkpoint)
    reader = spark.readStream.schema("at bigint, id string, n bigint, op string")
    stream = reader.option("maxFilesPerTrigger", 1).json(files)
    writer = upsert(
        stream,
        key="id",
        value="n",
        delete_when="op = 'd'",
        offsets="at",
        into=collection,
        buckets=3,
        history=1000,
        checkpoint=checkpoint,
    )
    follow(writer.trigger(processingTime="50 milliseconds").start())


if __name__ == "__main__":
    main(*sys.argv[1:4])
