"""Ten hours of a store: bounded, nothing lost under backpressure, each loss accounted for.

``QUIVER_LIVES`` says how many lives of each kind; ``make crash`` leads one.
"""

from __future__ import annotations

import os

import pytest
from life_kit import Life

pytestmark = pytest.mark.slow

SEEDS = range(int(os.environ.get("QUIVER_LIVES", "1")))


def account(life: Life) -> None:
    """Hold a life to its promises, in numbers."""
    assert life.most_bytes <= life.bytes_max
    assert life.restarts > 3
    assert life.full_times > 0
    for name, acked in life.acked.items():
        assert len(set(acked)) == len(acked), f"{name} got some twice"
        assert len(acked) + life.lost[name] == life.sent, name


@pytest.mark.parametrize("seed", SEEDS)
def test_under_backpressure_everybody_gets_everything(seed: int) -> None:
    life = Life(f"backpressure {seed}", "backpressure")
    life.lead()
    account(life)
    assert life.refused > 0
    assert set(life.lost.values()) == {0}
    for acked in life.acked.values():
        assert sorted(acked) == list(range(life.sent))


@pytest.mark.parametrize("seed", SEEDS)
def test_under_drop_oldest_what_went_in_was_acked_or_is_accounted_as_lost(seed: int) -> None:
    life = Life(f"drop {seed}", "drop_oldest")
    life.lead()
    account(life)
    assert seed or life.lost["slow"] > 0, "a life that loses nothing shows nothing"


@pytest.mark.parametrize("seed", SEEDS)
def test_with_an_age_limit_what_grew_too_old_is_accounted_as_lost(seed: int) -> None:
    life = Life(f"age {seed}", "backpressure", max_hours=2, slow_share=0.003)
    life.lead()
    account(life)
    assert seed or life.lost["slow"] > 0, "a life that loses nothing shows nothing"
