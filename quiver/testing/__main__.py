"""``python -m quiver.testing`` is ``quiver crashtest``."""

from __future__ import annotations

import runpy
import sys

__all__: list[str] = []

if __name__ == "__main__":
    sys.argv.insert(1, "crashtest")
    runpy.run_module("quiver", run_name="__main__")
