"""Spark looks at the store: ``python -m bench.demo_otel.query STORE ANSWER``.

How many lines there are, how many different ones, and how many of each carrier and severity: by the
attributes that the collector found, not by the text of the line.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import functions as F  # noqa: N812 As everybody calls it.

from bench.demo_otel.sink import LINE_NUMBER
from bench.demo_stream.running import demo_session
from bench.demo_stream.telling import say
from quiver.spark.otel import logs

__all__ = ["main"]


def main(store: str, answer: str) -> None:
    """Ask, and write down the answer."""
    spark = demo_session(answer)
    lines = logs(spark, store).select(
        F.col("attributes")[LINE_NUMBER].cast("long").alias("line"),
        F.col("attributes")["carrier"].alias("carrier"),
        "severity_text",
    )
    lines = lines.cache()
    kinds = lines.dropDuplicates(["line"]).groupBy("carrier", "severity_text").count()
    found = {
        "lines": lines.count(),
        "different": lines.select("line").distinct().count(),
        "kinds": sorted([carrier, how, count] for carrier, how, count in kinds.collect()),
    }
    with open(answer, "w", encoding="utf-8") as file:
        json.dump(found, file)
    say("answered")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:3])
