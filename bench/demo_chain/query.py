"""Spark counts flights: ``python -m bench.demo_chain.query STORE ANSWER``."""

from __future__ import annotations

import json
import sys

from bench.demo_stream.running import demo_session
from bench.demo_stream.telling import say

__all__ = ["main"]


def main(store: str, answer: str) -> None:
    """Count the flights of each carrier, and write down how many."""
    spark = demo_session(answer)
    frame = spark.read.format("quiver").option("slot", "flights").load(store)
    found = {row["carrier"]: row["count"] for row in frame.groupBy("carrier").count().collect()}
    with open(answer, "w", encoding="utf-8") as file:
        json.dump(found, file)
    say("answered")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:3])
