"""Try every order of events in a block of a chain; writes quiver/chain/MODEL.md."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests" / "kit"))

from chain_model import search  # noqa: E402
from chain_verdicts import VERDICTS, row  # noqa: E402

PAGE = ROOT / "quiver" / "chain" / "MODEL.md"
HEAD = """# Every order of events in one block of a chain

Written by `make model`. `tests/kit/chain_model.py` walks through all states of one block that can
be reached: each location writes, syncs, forwards, loses its power; two who seal claim, fence,
decide and commit, each as often as it may, and copies are cut. What it runs at each step is
the code that nodes and loaders run: `admit`, `promise`, `decide` of `sealing`, `claimed` and
`committed` of `record`. A state is wrong if a reader saw what the seal dropped, or if a location
that is listed for the block has less than all of it. The first wrong one ends the search, so its
steps are the shortest way there.

Rows that are safe are what is done, or may be done. Each of the others leaves out one rule, and
shows that the rule is needed and that the search finds its want. One block and few bundles prove no
more than that; of them, no order of events was left out.

| how it is played | copies | bundles | power losses | result | states |
|---|---:|---:|---:|---|---:|
"""


def main() -> None:
    rows = []
    for verdict in VERDICTS:
        rows.append(row(verdict, search(verdict.rules)))
        print(rows[-1])
    PAGE.write_text(HEAD + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
