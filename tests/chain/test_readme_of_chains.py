"""The README's sample of a chain runs, on nodes at other ports."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from cluster_kit import running

import quiver

README = (Path(__file__).parents[2] / "README.md").read_text()


class Seen(Exception):
    """The sample waits for more for ever; here one message is enough."""


def test_the_sample_of_the_readme_runs(tmp_path) -> None:
    samples = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    (sample,) = (each for each in samples if "quiver.connect" in each)
    table = pa.table({"id": [1, 2]})

    def show(time_ns: int, partition: str, bundle: Any) -> None:
        assert (time_ns > 0, partition) == (True, "core_0")
        assert pa.table(bundle["events"]).equals(table)
        raise Seen

    with running(tmp_path, "a", "b", "c") as nodes:
        places = ",".join(each.address for each in nodes.served.values())
        sample = re.sub(r'"quiver://[^"]*"', repr(f"quiver://{places}"), sample)
        with pytest.raises(Seen):
            exec(sample, {"quiver": quiver, "table": table, "print": show})
