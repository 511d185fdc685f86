"""The small ground: errors carry coordinates and travel, clocks tick, counters count."""

from __future__ import annotations

import pickle
import threading

import pytest

from quiver import errors
from quiver.clock import SystemClock
from quiver.errors import (
    CapacityError,
    DamagedEntry,
    FencedError,
    InputError,
    LockedError,
    MissingError,
    QuiverError,
    RemoteError,
    SourceError,
    StorageError,
    SubscriberError,
    TornEntry,
    WaitTimeoutError,
)
from quiver.metrics import CATALOGUE, Metrics


def test_all_errors_are_of_one_tree_and_in_the_list() -> None:
    kinds = {
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, Exception)
    }
    assert kinds == set(errors.__all__)
    assert all(issubclass(getattr(errors, name), QuiverError) for name in kinds)
    drawn = errors.__doc__ or ""
    assert all(name in drawn for name in kinds)


@pytest.mark.parametrize(
    "kind, builtin",
    [
        (InputError, ValueError),
        (StorageError, OSError),
        (MissingError, FileNotFoundError),
        (SubscriberError, LookupError),
        (WaitTimeoutError, TimeoutError),
    ],
)
def test_errors_are_also_what_python_calls_them(kind: type, builtin: type) -> None:
    assert issubclass(kind, builtin)


def test_a_hint_stands_behind_the_message() -> None:
    assert str(InputError("wrong", hint="do this")) == "wrong (do this)"
    assert str(StorageError("no", path="/x", errno=5)) == "no"
    assert StorageError("no", errno=5).errno == 5


def test_damage_tells_place_expectation_and_finding() -> None:
    error = DamagedEntry("bad magic", offset=8, expected="QVX1", found="QVX2").at("/a/b", base=100)
    assert isinstance(error, DamagedEntry)
    assert (error.path, error.offset) == ("/a/b", 108)
    assert str(error) == "bad magic in /a/b at byte 108: expected QVX1, found QVX2"
    zero = TornEntry("ends early", expected=0, found=1, hint="normal after a crash")
    assert str(zero) == "ends early: expected 0, found 1 (normal after a crash)"


@pytest.mark.parametrize(
    "expected, found, text",
    [
        ("a", "b", "m: expected a, found b"),
        ("a", None, "m: expected a"),
        (None, "b", "m: found b"),
        (None, 0, "m: found 0"),
        (None, None, "m"),
    ],
)
def test_of_expectation_and_finding_only_what_is_known_is_told(expected, found, text) -> None:
    assert str(DamagedEntry("m", expected=expected, found=found)) == text
    assert f"m{DamagedEntry.comparison(expected, found)}" == text


@pytest.mark.parametrize(
    "error",
    [
        StorageError("m", path="p", errno=5, hint="h"),
        DamagedEntry("m", path="p", offset=3, expected=1, found=2),
        LockedError("m", pid=7),
        FencedError("m", epoch=3, current=4),
        RemoteError("m", path="p", retryable=True, hint="h"),
        CapacityError("m", hint="h"),
        SourceError("m", split="core_0", retryable=True, hint="h"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_survive_the_way_from_another_process(error: QuiverError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert (str(copy), vars(copy)) == (str(error), vars(error))
    assert getattr(copy, "errno", None) == getattr(error, "errno", None)


def test_only_errors_that_may_pass_are_retryable() -> None:
    kinds = [getattr(errors, name) for name in errors.__all__]
    assert {kind.__name__ for kind in kinds if kind.retryable} == {
        "CapacityError",
        "LockedError",
        "WaitTimeoutError",
    }


def test_the_system_clock_has_a_date_and_never_goes_back() -> None:
    clock = SystemClock()
    assert clock.wall_ns() > 1_700_000_000_000_000_000
    first = clock.monotonic_ns()
    assert clock.monotonic_ns() >= first


def test_counters_count_by_label_and_from_many_threads() -> None:
    metrics = Metrics()
    name = "quiver.subscriber.dropped_bundles"

    def work() -> None:
        for _ in range(1000):
            metrics.add(name, 2, label="a")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    metrics.add(name)
    assert metrics.read() == {(name, "a"): 8000, (name, ""): 1}


def test_a_counter_that_is_not_in_the_catalogue_is_refused() -> None:
    with pytest.raises(KeyError):
        Metrics().add("quiver.wal.apended")


def test_the_catalogue_names_each_metric_once_by_room() -> None:
    names = [metric.name for metric in CATALOGUE]
    assert len(set(names)) == len(names)
    assert all(name.split(".")[0] == "quiver" and name.count(".") in (1, 2) for name in names)
    assert {name for name in names if name.count(".") == 1} == {"quiver.recovery", "quiver.damage"}
    assert all(metric.help.endswith(".") for metric in CATALOGUE)
