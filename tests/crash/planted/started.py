"""A program with one defect in it: ``python started.py DEFECTS DEFECT MODULE WORDS...``."""

from __future__ import annotations

import runpy
import sys
from importlib import import_module
from pathlib import Path

from planting import plant

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[3]))
    defects, name, module, *words = sys.argv[1:]
    [defect] = [defect for defect in import_module(defects).DEFECTS if defect.name == name]
    plant(defect)
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__")
