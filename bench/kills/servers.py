"""What stands in for S3 in the tests, for those who run without pytest."""

from __future__ import annotations

import sys
from importlib import import_module

from bench.kit import ROOT

__all__ = ["FaultProxy", "fault_proxy", "seaweed"]

_KIT = str(ROOT / "tests" / "kit")

sys.path.insert(0, _KIT)
seaweed, fault_proxy = import_module("seaweed"), import_module("fault_proxy")
sys.path.remove(_KIT)

FaultProxy = fault_proxy.FaultProxy
