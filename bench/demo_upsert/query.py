"""The query: ``python -m bench.demo_upsert.query STORE CHECKPOINT COLLECTION ANSWERS``.

From the store into the collection until it is killed, or asked: once the file ``ask`` in the folder
ANSWERS names an epoch, it stops, and reads the collection back into Parquet there. ``running``,
``batch N ROWS`` and ``answered`` on its standard output say how far it is.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Final

from bench.demo_stream.running import demo_session, follow
from bench.demo_stream.telling import say
from bench.demo_upsert.slots import ASK, CANCELLED, COLUMNS, KEY, ORDER, SLOT
from quiver.spark import upsert

__all__ = ["BUCKETS", "SUBSCRIBER"]

SUBSCRIBER: Final = "spark"
BUCKETS: Final = 4


def main(store: str, checkpoint: str, collection: str, answers: str) -> None:
    """Run the query, then answer."""
    spark = demo_session(checkpoint)
    options = {"slot": SLOT, "subscriber": SUBSCRIBER, "checkpointLocation": checkpoint}
    # Where its rows come from goes into the collection, so that a lost checkpoint is no matter.
    options |= {"includeMetadata": "true", "sink": "synced", "maxSegmentsPerTrigger": "4"}
    frame = spark.readStream.format("quiver").options(**options).load(store)
    writer = upsert(
        frame,
        into=collection,
        key=KEY,
        value=[name for name in COLUMNS.names if name not in (*KEY, CANCELLED)],
        order_by=ORDER,
        delete_when=CANCELLED,
        buckets=BUCKETS,
        history=10_000,
        checkpoint=checkpoint,
    )
    query = writer.trigger(processingTime="200 milliseconds").start()
    question = os.path.join(answers, ASK)
    follow(query, until=lambda: os.path.exists(question))
    query.stop()
    with open(question, encoding="utf-8") as file:
        answer(spark, collection, answers, epoch=int(file.read()))
    say("answered")


def answer(spark: Any, collection: str, answers: str, *, epoch: int) -> None:
    """Read the collection as it is, as it was, and what changed."""
    views = {"now": {}, "then": {"asOf": epoch}, "changes": {"changes": "true"}}
    for name, options in views.items():
        frame = spark.read.format("quiver-view").options(**options).load(collection)
        frame.write.parquet(os.path.join(answers, name))


if __name__ == "__main__":
    main(*sys.argv[1:5])
