"""The nursery of ``bench.ship_kills`` with one defect in all who are forked from it.

``python ship_nursery.py DEFECT SETUP``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from planting import plant
from ship_defects import DEFECTS

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[3]))
    [defect] = [defect for defect in DEFECTS if defect.name == sys.argv[1]]
    plant(defect)

    from bench.ship_kills.nursery import main
    from bench.ship_kills.setup import Setup

    main(Setup.from_json(sys.argv[2]))
