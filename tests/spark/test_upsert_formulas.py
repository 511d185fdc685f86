"""Conditions that are asked of rows in Arrow: they mean what they mean in Spark, null by null."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import quiver
from quiver.spark.schema import arrow_schema, to_spark
from quiver.spark.upsert.formulas import Named
from quiver.spark.upsert.relation import Relation, relation_of

pytestmark = pytest.mark.spark

ROWS = 200
DAYS = [date(1582, 10, 4), date(1969, 12, 31), date(2024, 2, 29), date(9999, 12, 31)]
TIMES = [
    datetime(*parts, tzinfo=UTC)
    for parts in ((1900, 1, 1), (1969, 12, 31, 23, 59, 59, 999_999), (2024, 3, 31))
]
TEXTS = ["", "a", "A", "a ", "ab", "\u00fc", "u\u0308", "\uffff", "\U0001f600", "it's", "\x00"]
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "text": (pa.string(), TEXTS),
    "word": (pa.dictionary(pa.int32(), pa.large_string()), TEXTS),
    "tiny": (pa.int8(), [-128, -1, 0, 1, 127]),
    "small": (pa.uint8(), [0, 1, 255]),
    "whole": (pa.int32(), [-(2**31), -1, 0, 1, 2**31 - 1]),
    "big": (pa.int64(), [-(2**63), -1, 0, 1, 2**31, 2**63 - 1]),
    "flag": (pa.bool_(), [True, False]),
    "day": (pa.date32(), DAYS),
    "local": (pa.timestamp("us"), [time.replace(tzinfo=None) for time in TIMES]),
    "instant": (pa.timestamp("ns", "Asia/Tokyo"), TIMES),
}
WHOLE = ("tiny", "small", "whole", "big")
SIGNS = ("=", "<>", "!=", "<", "<=", ">", ">=")


def table(rng: random.Random) -> pa.Table:
    """Give rows that have each value often, and nulls."""
    made: dict[str, Any] = {"at": pa.array(range(ROWS))}
    for name, (kind, values) in COLUMNS.items():
        some = [rng.choice([None, *values]) for _ in range(ROWS)]
        made[name] = pa.array(some, kind)
    return pa.table(made)


def literal(value: Any, name: str) -> str:
    """Write a value as SQL has it."""
    if isinstance(value, str):
        found = value.replace("'", "\\'").replace("\x00", "\\u0000")
        return f"'{found}'"
    if isinstance(value, datetime):
        word = "timestamp" if name == "instant" else "timestamp_ntz"
        return f"{word} '{value.replace(tzinfo=None).isoformat(' ')}'"
    if value == -(2**63):
        return "(-9223372036854775808L)"
    return f"date '{value}'" if isinstance(value, date) else str(value)


def compared(rng: random.Random) -> str:
    """Write one comparison."""
    name = rng.choice([*COLUMNS])
    values = [literal(value, name) for value in COLUMNS[name][1]]
    kind = rng.randrange(5)
    if kind == 0:
        return f"{name} is {rng.choice(['', 'not '])}null"
    if kind == 1:
        some = ", ".join(rng.choices(values, k=rng.randint(1, 4)))
        return f"{name} {rng.choice(['', 'not '])}in ({some})"
    if kind == 2 and name in WHOLE:
        return f"{name} {rng.choice(SIGNS)} {rng.choice(WHOLE)}"
    if kind == 4 and name != "flag":
        word = rng.choice(["between", "not between"])
        low, high = rng.choices([*values, *(WHOLE if name in WHOLE else ())], k=2)
        return f"{name} {word} {low} and {high}"
    if name == "flag":
        return rng.choice(["flag", f"flag {rng.choice(SIGNS[:3])} {rng.choice(values)}"])
    sides = [name, rng.choice(values)]
    rng.shuffle(sides)
    return rng.choice(SIGNS).join(f" {side} " for side in sides)


def condition(rng: random.Random, depth: int) -> str:
    """Write a condition of several."""
    if not depth or rng.random() < 0.2:
        return compared(rng)
    if rng.random() < 0.25:
        return f"not ({condition(rng, depth - 1)})"
    word = rng.choice(["and", "or"])
    return f"({condition(rng, depth - 1)}) {word} ({condition(rng, depth - 1)})"


@pytest.fixture
def store(tmp_path) -> Callable[[pa.Table], str]:
    def write(rows: pa.Table) -> str:
        path = tmp_path / "store"
        with quiver.open(path, slots=["logs"], worker=False) as opened:
            opened.append({"logs": rows})
            opened.finalize()
        return str(path)

    return write


def stream(spark: SparkSession, path: str) -> DataFrame:
    options = {"slot": "logs", "includeMetadata": "true"}
    return spark.readStream.format("quiver").options(**options).load(path)


def relation(frame: DataFrame) -> Relation:
    found = relation_of(frame)
    assert found is not None
    return found


def test_whatever_is_told_of_a_condition_is_what_spark_makes_of_it(spark, store) -> None:
    rng = random.Random(7)
    rows = table(rng)
    path = store(rows)
    conditions = [condition(rng, rng.randrange(4)) for _ in range(60)]
    asked = [f.expr(each).alias(f"c{at}") for at, each in enumerate(conditions)]
    batch = spark.read.format("quiver").option("slot", "logs").load(path)
    expected = batch.select("at", *asked).toArrow().sort_by("at")
    told = relation(stream(spark, path).select("at", *asked))
    target = arrow_schema(told.schema)
    (given,) = rows.combine_chunks().to_batches()
    inside = to_spark(given, target)
    for formula, column, text in zip(
        told.columns[1:], expected.columns[1:], conditions, strict=True
    ):
        for asked_of in (inside, pa.Table.from_batches([inside, inside.slice(3, 0)])):
            assert formula.of(asked_of).to_pylist() == column.to_pylist(), text
    answers = [set(column.to_pylist()) for column in expected.columns[1:]]
    assert sum(len(each) == 3 for each in answers) > 25  # Yes, no and unknown.


def test_a_condition_is_found_below_other_names_and_columns(spark, store) -> None:
    frame = stream(spark, store(table(random.Random(1)))).withColumnRenamed("text", "other")
    frame = frame.withColumn("gone", f.expr("other = 'a'")).withColumn("text", f.lit("x"))
    for _ in range(60):
        frame = frame.select("*")
    told = relation(frame.select(f.expr("not gone or text = other"), f.col("whole").alias("n")))
    assert [formula.names for formula in told.columns] == [{"text"}, {"whole"}]
    assert told.columns[1] == Named("whole")
    rows = pa.table({"text": ["a", "x", "y", None]})
    assert told.columns[0].of(rows).to_pylist() == [False, True, True, None]


@pytest.mark.parametrize(
    "text",
    [
        "big + 1 = 2",
        "text like 'a%'",
        "big + 1 between 1 and 3",
        "whole between 1 and null",
        "2 between 1 and 3",
        "text <=> 'a'",
        "text = 3",
        "text = null",
        "text in ('a', null)",
        "text collate utf8_lcase = 'a'",
        "upper(text) = 'A'",
        "flag < true",
        "day = current_date()",
        "day < local",
        "local < instant",
        "cast(big as int) = 1",
        "cast(whole as double) = 1",
        "1 = 1",
        "whole in (big, 1)",
        "text > rand()",
        "(" * 150 + "not " + ") = (not ".join(["flag"] * 150) + ")" * 150,
        " or ".join(["flag"] * 500),
    ],
)
def test_what_is_not_certain_is_left_to_spark(spark, store, text) -> None:
    frame = stream(spark, store(table(random.Random(1))))
    assert relation_of(frame.select("at", f.expr(text))) is None
