"""The model and its machine find what is wrong with a store: here it is made wrong."""

from __future__ import annotations

import gc
import pkgutil
from collections.abc import Callable

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from quiver.errors import QuiverError
from quiver.testing import Loss

from .test_store_model import PROFILE, StoreMachine

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*lost without an outcome:ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)


def nothing(*args: object, **named: object) -> None:
    """Do nothing."""


def no_retry_time(real: Callable) -> Callable:
    return lambda self, claim, not_before_ns, **named: real(self, claim, 0, **named)


def no_cover(real: Callable) -> Callable:
    return lambda *values, **named: real(*values, **{**named, "covered_seq": None})


@pytest.mark.parametrize(
    ("target", "defect"),
    [
        ("quiver.acks.log.AckLog.sync", lambda _: nothing),
        ("quiver.wal.writer.Writer.sync", lambda _: nothing),
        ("quiver.engine.space.raise_floor", lambda _: nothing),
        ("quiver.engine.recovery.Replay", no_cover),
        ("quiver.engine.delivery.release_forgotten", lambda _: nothing),
        ("quiver.subscriber.registry.Registry.nack", no_retry_time),
    ],
)
def test_a_planted_defect_is_found(
    target: str, defect: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, name = target.rsplit(".", 1)
    monkeypatch.setattr(target, defect(getattr(pkgutil.resolve_name(place), name)))
    found = settings(PROFILE, max_examples=300, derandomize=True, phases=[Phase.generate])
    with pytest.raises((Loss, QuiverError)):
        run_state_machine_as_test(StoreMachine, settings=found)
    gc.collect()
