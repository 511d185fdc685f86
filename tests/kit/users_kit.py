"""A store of users, and the verbs that make a collection of it and read that."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pyarrow as pa

import quiver

USERS = ("--slot", "users", "--key", "id")


def batch(ids, names, *, op=None) -> dict[str, pa.RecordBatch]:
    columns = {"id": pa.array(ids, pa.int64()), "name": pa.array(names, pa.string())}
    return {"users": pa.record_batch(columns if op is None else {**columns, "op": op})}


def write(store: Path, *bundles) -> None:
    with quiver.open(store, slots=["users", "more"], worker=False) as opened:
        for bundle in bundles:
            opened.append(bundle)
        opened.finalize()


def shown(run, into: Path, *options) -> list[dict]:
    return sorted(
        run("view", into, "--json", *options).lines, key=lambda row: json.dumps(row, default=str)
    )


def fields(section: str) -> set[str]:
    """Read the fields of a report from the page."""
    page = (Path(quiver.__file__).parent / "cli" / "JSON.md").read_text()
    text = page.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `([^`]+)` \|[^|]*\|$", text, flags=re.MULTILINE))


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(quiver.__file__).parents[1])}
