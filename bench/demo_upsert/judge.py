"""What came out against the model, value for value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.demo.compare import Difference, compare
from bench.demo_upsert import model
from bench.demo_upsert.board import Board
from bench.demo_upsert.slots import CANCELLED, COLUMNS, ORDER

__all__ = ["CHANGES", "STATE", "Found", "Verdict", "judge"]

STATE: Final = COLUMNS.remove(COLUMNS.get_field_index(CANCELLED))
"""The columns of a row that is on the board: key and value."""
CHANGES: Final = STATE.append(pa.field("time", pa.int64())).append(pa.field("diff", pa.int64()))


class Found(NamedTuple):
    """What was read back."""

    now: pa.Table
    then: pa.Table
    """As of ``epoch``."""
    epoch: int
    changes: pa.Table
    """All of them."""


@dataclass
class Verdict:
    """What was compared, and what is wrong."""

    epochs: int = 0
    compared: dict[str, Difference] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Whether all is as the model has it."""
        each = self.compared.values()
        return bool(each) and all(one.is_none for one in each) and not self.problems


def judge(board: Board, found: Found) -> Verdict:
    """Compare all that was read with what pandas makes of the commands."""
    verdict = Verdict()
    commands = board.commands
    epochs, ends = _epochs(found.changes)
    verdict.epochs = len(epochs)
    if not set(ends[:-1].tolist()) <= set(board.ends.tolist()):
        verdict.problems.append("an epoch ends inside a bundle")
    if not len(ends) or ends[-1] < board.ends[-2] or (np.diff(ends) <= 0).any():
        verdict.problems.append("the epochs do not cover the year, one after the other")
        return verdict
    ends[-1] = len(commands)
    done = ends[np.searchsorted(epochs, found.epoch, side="right") - 1]
    now = _table(model.state(commands), STATE)
    wanted = {
        "the board now": (now, found.now),
        f"as of epoch {found.epoch}": (
            _table(model.state(commands.iloc[:done]), STATE),
            found.then,
        ),
        "changes, added up": (now, _summed(found.changes, verdict.problems)),
        "changes, each": (_table(model.changes(commands, epochs, ends), CHANGES), found.changes),
    }
    verdict.compared = {name: compare(*sides) for name, sides in wanted.items()}
    return verdict


def _epochs(changes: pa.Table) -> tuple[Any, Any]:
    """Give the epochs that changed something, and behind which command each ends."""
    came = changes.filter(pc.greater(changes["diff"], pa.scalar(0)))
    last = came.group_by("time").aggregate([(ORDER, "max")]).sort_by("time")
    return last["time"].to_numpy(), last[f"{ORDER}_max"].to_numpy() + 1


def _summed(changes: pa.Table, problems: list[str]) -> pa.Table:
    """Add up all changes: what is there once stays, what is there never goes."""
    sums = changes.group_by(STATE.names).aggregate([("diff", "sum")])
    odd = sums.filter(pc.invert(pc.is_in(sums["diff_sum"], pa.array([0, 1]))))
    if odd.num_rows:
        problems.append(f"{odd.num_rows:,} rows add up to neither 0 nor 1")
    return sums.filter(pc.equal(sums["diff_sum"], pa.scalar(1))).select(STATE.names)


def _table(frame: Any, schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pandas(frame, schema, preserve_index=False)
