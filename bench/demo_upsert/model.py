"""What has to come out, by pandas: no code of the collection has a part in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from bench.demo_upsert.slots import CANCELLED, KEY, ORDER

__all__ = ["changes", "named", "state"]


def named(commands: Any) -> Any:
    """Give the commands that have a key."""
    return commands[commands[KEY].notna().all(axis=1)]


def state(commands: Any) -> Any:
    """Give the last command of each key, without those that delete."""
    last = named(commands).sort_values(ORDER).groupby(KEY, sort=False).tail(1)
    return last[~last[CANCELLED]]


def changes(commands: Any, epochs: Sequence[int], ends: Sequence[int]) -> Any:
    """Give the rows that come and go if epoch ``epochs[i]`` ends before command ``ends[i]``.

    With columns ``time`` and ``diff`` behind those of the commands.
    """
    some = named(commands)
    which = np.searchsorted(ends, some[ORDER], side="right")
    some = some.assign(time=np.asarray(epochs)[which])
    last = some.sort_values(ORDER).groupby([*KEY, "time"], sort=False).tail(1).sort_values(ORDER)
    came = last[~last[CANCELLED]]
    before = last[ORDER].groupby([last[key] for key in KEY], sort=False).shift(1)
    before = before[before.isin(came[ORDER])].astype("int64")
    went = some.set_index(ORDER, drop=False).loc[before]
    went = went.assign(time=last.loc[before.index, "time"].to_numpy(), diff=-1)
    return pd.concat([came.assign(diff=1), went], ignore_index=True)
