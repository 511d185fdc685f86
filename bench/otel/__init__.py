"""Telemetry: what reading and keeping it costs, and what a store does in a pipeline."""

import sys

from bench.kit import ROOT

sys.path.append(str(ROOT / "tests" / "kit"))  # What starts quiver run.
