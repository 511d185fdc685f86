"""The pure code that ends a block, in every order of events; and the short cuts that lose data."""

from __future__ import annotations

from pathlib import Path

import pytest
from chain_model import search
from chain_verdicts import VERDICTS, Verdict, row

PAGE = (Path(__file__).parents[2] / "quiver" / "chain" / "MODEL.md").read_text()


@pytest.mark.parametrize("verdict", VERDICTS, ids=lambda verdict: verdict.name)
def test_every_order_of_events(verdict: Verdict) -> None:
    found = search(verdict.rules)
    assert found.fault == verdict.fault, "; ".join(found.steps)
    assert found.states > 100
    assert bool(found.steps) == bool(verdict.fault)
    assert row(verdict, found) in PAGE, "make model writes the page anew"


def test_a_search_that_grows_too_large_says_so() -> None:
    with pytest.raises(MemoryError, match="more than 10 states"):
        search(VERDICTS[0].rules, states_max=10)


def test_the_page_has_these_rows_and_no_others() -> None:
    assert PAGE.count("\n| ") == len(VERDICTS) + 1  # And the head.
