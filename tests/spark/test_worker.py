"""What a Python worker of Spark does with the garbage collector, asked of a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

_SCRIPT = """
import gc, json, types
from quiver.spark.worker import settle

def main(name):
    return types.SimpleNamespace(__spec__=types.SimpleNamespace(name=name))

said = [settle(), settle(main("my.program")), gc.get_freeze_count()]
said += [settle(main("pyspark.daemon")), gc.get_freeze_count() > 1000]
here = gc.get_freeze_count()
said += [settle(main("pyspark.daemon")), gc.get_freeze_count() == here]
ring = []
ring.append(ring)
del ring
said.append(gc.collect() > 0)
print(json.dumps(said))
"""


def test_only_a_worker_and_only_once_has_what_is_there_passed_over() -> None:
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, check=True)
    assert json.loads(done.stdout) == [False, False, 0, True, True, False, True, True]
