"""The nursery of a play with one defect in all who are forked from it.

``python nursery.py DEFECTS PLAY DEFECT SETUP``: which module of defects, which package of bench.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from planting import plant

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[3]))
    defects, play, name, setup = sys.argv[1:]
    [defect] = [defect for defect in import_module(defects).DEFECTS if defect.name == name]
    plant(defect)
    import_module(f"bench.{play}.nursery").main(setup)
