"""What the model has to say of each way to play a chain: the safe ones, and each short cut."""

from __future__ import annotations

from typing import Final, NamedTuple

from chain_model import Found, Rules

__all__ = ["VERDICTS", "Verdict", "row"]

_DROPPED: Final = "a reader saw what the seal dropped"
_SHORT: Final = "a listed copy is shorter than the block"


class Verdict(NamedTuple):
    """One row of the table."""

    name: str
    rules: Rules
    fault: str = ""
    """Empty: no state is wrong."""


VERDICTS: Final = (
    Verdict("two copies, synced before they are forwarded", Rules(bundles=3)),
    Verdict("three copies", Rules(replicas=3)),
    Verdict("two copies, two power losses", Rules(losses=2)),
    Verdict("the longest copy that was fenced", Rules(takes_longest=True)),
    Verdict("no fence", Rules(fences=False), _DROPPED),
    Verdict("forwarded before it is synced", Rules(forwards_early=True), _DROPPED),
    Verdict(
        "the same, readers see what all have synced",
        Rules(forwards_early=True, head_tells=True),
    ),
    Verdict(
        "the same, three copies",
        Rules(replicas=3, forwards_early=True, head_tells=True),
    ),
    Verdict("a promise that is not synced", Rules(keeps_promise=False), _DROPPED),
    Verdict("page cache, processes die", Rules(is_synced=False, losses=0)),
    Verdict("page cache, a machine loses power", Rules(is_synced=False)),
    Verdict("page cache, a machine of three loses power", Rules(replicas=3, is_synced=False)),
    Verdict(
        "the same, whoever lost its power is asked as well",
        Rules(is_synced=False, asks_rebooted=True),
        _DROPPED,
    ),
    Verdict("page cache, both lose power", Rules(is_synced=False, losses=2), _DROPPED),
    Verdict("cut before the record says so", Rules(cuts_early=True)),
    Verdict("two who seal with one epoch", Rules(claims=False)),
    Verdict(
        "cut before the record says so, with one epoch",
        Rules(cuts_early=True, claims=False),
        _SHORT,
    ),
)
"""Page cache: a location forwards what it has not synced. Both losing power then is beyond help."""


def row(verdict: Verdict, found: Found) -> str:
    """Say what a search came to, as a row of ``quiver/chain/MODEL.md``."""
    copies, losses = verdict.rules.replicas, verdict.rules.losses
    result = f"{found.fault}, {len(found.steps)} steps" if found.fault else "safe"
    cells = verdict.name, copies, verdict.rules.bundles, losses, result, f"{found.states:,}"
    return f"| {' | '.join(str(cell) for cell in cells)} |"
