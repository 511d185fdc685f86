"""``filter``: takes out items that rules are about, and all that hangs from them.

With ``keep`` instead of ``drop`` it takes out what no rule is about. Signals of which no rule
speaks pass. The items of metrics are their points: a metric goes when all of its points do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from quiver.bundle import RecordBundle
from quiver.otel.batch import Batch
from quiver.otel.pipeline.processors.matching import item_rows, root_rows
from quiver.otel.pipeline.processors.tables import (
    ITEM_ATTRS,
    Mask,
    Tables,
    ids_of,
    parents_of,
    pruned,
    without_orphans,
)
from quiver.otel.pipeline.rules import Rule
from quiver.otel.signals import ROOT_SLOTS, Signal

__all__ = ["Filter"]

_ROOT_ITEMS: Final = (Signal.LOGS, Signal.TRACES)


class Filter:
    """Gives what of a batch is left; it is to be Arrow."""

    def __init__(self, rules: Sequence[Rule], *, keep: bool) -> None:
        self._rules, self._keep = tuple(rules), keep

    def __call__(self, batch: Batch) -> list[Batch]:
        """Take items out; an empty list if none is left."""
        signal = batch.signal
        rules = [rule for rule in self._rules if signal in rule.signals]
        if not rules:
            return [batch]
        tables: Tables = dict(batch.bundle)
        if signal in _ROOT_ITEMS:
            left = self._items(tables, signal, rules)
        else:
            left = self._points(tables, rules)
        if not left:
            return []
        return [batch] if left is tables else [Batch(signal, RecordBundle(left))]

    def _items(self, tables: Tables, signal: Signal, rules: Sequence[Rule]) -> Tables:
        root = ROOT_SLOTS[signal]
        met = np.zeros(tables[root].num_rows, np.bool_)
        for rule in rules:
            rows = root_rows(rule, tables, signal)
            met |= rows & item_rows(rule, tables, root, attrs=ITEM_ATTRS[signal][root])
        return pruned(tables, signal, met if self._keep else ~met)

    def _points(self, tables: Tables, rules: Sequence[Rule]) -> Tables:
        signal = Signal.METRICS
        root = ROOT_SLOTS[signal]
        about_all = [rule for rule in rules if not _is_of_items(rule)]
        whole = np.zeros(tables[root].num_rows, np.bool_)
        for rule in about_all:
            whole |= root_rows(rule, tables, signal)
        some = [(rule, root_rows(rule, tables, signal)) for rule in rules if rule not in about_all]
        if not some:
            return pruned(tables, signal, whole if self._keep else ~whole)
        left, ids = dict(tables), ids_of(tables[root], "id")
        had, has = np.zeros(len(ids), np.bool_), np.zeros(len(ids), np.bool_)
        for points, attrs in ITEM_ATTRS[signal].items():
            if points not in tables:
                continue
            parents = parents_of(tables[points])
            met = np.isin(parents, ids[whole])
            for rule, rows in some:
                met |= np.isin(parents, ids[rows]) & item_rows(rule, tables, points, attrs=attrs)
            keep = met if self._keep else ~met
            _take(left, points, keep)
            had |= np.isin(ids, parents)
            has |= np.isin(ids, parents[keep])
        # One without points was about nothing but itself.
        bare = ~had & (whole if self._keep else ~whole)
        return pruned(left, signal, has | bare)


def _is_of_items(rule: Rule) -> bool:
    return any(condition.place == "item" for condition in rule.conditions)


def _take(tables: Tables, slot: str, keep: Mask) -> None:
    if keep.all():
        return
    if keep.any():
        tables[slot] = tables[slot].filter(pa.array(keep))
    else:
        del tables[slot]
    without_orphans(tables, slot)
