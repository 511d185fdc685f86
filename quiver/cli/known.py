"""Which names a store has: what else lies in its folders is a stranger."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from quiver.engine.ages import AGES_NAME
from quiver.engine.core import core_folder
from quiver.engine.cores import VISIT_NAME
from quiver.engine.following import FOLLOWERS_NAME
from quiver.engine.intake_journal import JOURNAL_NAME, SINKS
from quiver.engine.numbers import STAGING
from quiver.engine.reserve import RESERVE_NAME
from quiver.engine.timekeeping import HEARTBEAT_NAME, TIMELINE_NAME
from quiver.ledger import LEDGER_NAME
from quiver.manifest import MANIFEST_NAME
from quiver.progress import HERE_NAME, LOST_NAME, PROGRESS_NAME

__all__ = ["CORE_NAMES", "store_names"]

_STATIONS: Final = {"wal", "segments", "acks", "quarantine", "dead_letters"}
_TIMES: Final = {TIMELINE_NAME, HEARTBEAT_NAME}
_FILES: Final = {AGES_NAME, RESERVE_NAME, PROGRESS_NAME, HERE_NAME, LOST_NAME, JOURNAL_NAME}
CORE_NAMES: Final = frozenset({"LOCK", VISIT_NAME} | _TIMES | _FILES | _STATIONS)
"""In the folder of a core."""

_OWN: Final = {MANIFEST_NAME, f"{MANIFEST_NAME}.lock", LEDGER_NAME, STAGING, SINKS, FOLLOWERS_NAME}


def store_names(cores: Iterable[int]) -> set[str]:
    """Give those of a store's own folder."""
    return _OWN | {core_folder(core) for core in cores}
