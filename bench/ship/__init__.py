"""The queue in object storage against plain puts and gets of the same store."""

import sys

from bench.kit import ROOT

sys.path.append(str(ROOT / "tests" / "kit"))  # What starts servers and lets processes race.
