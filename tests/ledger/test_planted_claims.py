"""What the search in ``test_claims`` is worth: it finds wrong lines that are planted in claims.

A crash cannot show them, for nothing is lost by the ledger; what they break is the cap, or they
leave somebody without room for ever.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import quiver.ledger.claims

sys.path.insert(0, str(Path(__file__).parent))
test_claims = import_module("test_claims")
sys.path.remove(str(Path(__file__).parent))

SOURCE = Path(quiver.ledger.claims.__file__)
SEARCH = test_claims.test_claims_never_pass_the_cap_whatever_the_order_of_steps.hypothesis
TRIES_MAX = 400

PLANTED = {
    "a claim is not announced": (
        "        yield self._say(held=used, claimed=goal, pending=True)\n",
        "",
    ),
    "what is announced does not count": (
        "known = sum(r.charge for",
        "known = sum(r.held if r.pending else r.charge for",
    ),
    "a claim is as large as it was announced": (
        "                self.claimed = min(goal, free)\n",
        "                self.claimed = goal\n",
    ),
    "what is held counts, and no claim": ("known = sum(r.charge for", "known = sum(r.held for"),
    "a tick gives nothing back": ("        self.claimed = min(self.claimed, keep)\n", ""),
    "who was refused once never asks again": (
        "        self._was_refused = False\n        said",
        "        said",
    ),
    "who gave way once does so for ever": ("        self._rest = max(self._rest - 1, 0)\n", ""),
}


def planted(old: str, new: str) -> ModuleType:
    """Give the module with one occurrence of ``old`` replaced by ``new``."""
    text = SOURCE.read_text(encoding="utf-8")
    assert text.count(old) == 1, "the ledger has changed, and so must the defect"
    module = ModuleType("quiver.ledger.planted")
    sys.modules[module.__name__] = module  # Where dataclasses look for annotations.
    try:
        exec(compile(text.replace(old, new), str(SOURCE), "exec", dont_inherit=True), vars(module))
    finally:
        del sys.modules[module.__name__]
    return module


def searches() -> Iterator[tuple[list[list[tuple[str, int]]], list[int]]]:
    """Draw what cores do, and the order of their steps; the same each time."""
    lot = random.Random("ledger")
    for _ in range(TRIES_MAX):
        scripts = [[draw(lot) for _ in range(lot.randrange(12))] for _ in range(lot.randint(2, 4))]
        yield scripts, [lot.randrange(4) for _ in range(lot.randrange(250))]


def draw(lot: random.Random) -> tuple[str, int]:
    kind = lot.choice(["take", "take", "free", "tick"])
    return kind, 0 if kind == "tick" else lot.randint(1, 400)


def tries_until_one_fails() -> int | None:
    """Search until something is wrong; None if nothing is."""
    for tries, (scripts, order) in enumerate(searches(), 1):
        try:
            SEARCH.inner_test(scripts, order)
        except AssertionError:
            return tries
    return None


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_defect_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = planted(*PLANTED[name])
    monkeypatch.setattr(test_claims, "Claims", module.Claims)
    monkeypatch.setattr(test_claims, "View", module.View)
    assert tries_until_one_fails() is not None


def test_the_ledger_without_a_defect_is_not_flagged() -> None:
    assert tries_until_one_fails() is None
