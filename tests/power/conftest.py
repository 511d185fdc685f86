"""Volumes to cut the power of, skipped loudly where they cannot be had."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

from quiver.testing.real import Actor, CrampedVolume, Kind, Volume, obstacle

HERE = [str(Path(__file__).parent)]
KINDS: tuple[Kind, ...] = ("ext4", "xfs")


@lru_cache
def why_not(kind: Kind) -> str | None:
    return obstacle(kind)


def need(kind: Kind) -> None:
    if (reason := why_not(kind)) is not None:
        pytest.skip(f"NO POWER CUTS on {kind}: {reason}")


@pytest.fixture(params=KINDS)
def volume(request: pytest.FixtureRequest) -> Iterator[Volume]:
    need(request.param)
    with Volume(request.param) as made:
        yield made
        gc.collect()  # Dead stores go now, and not while another test watches for warnings.


@pytest.fixture(params=KINDS)
def cramped(request: pytest.FixtureRequest) -> Iterator[CrampedVolume]:
    need(request.param)
    with CrampedVolume(request.param) as made:
        yield made
        gc.collect()


@pytest.fixture(scope="session")
def actor() -> Iterator[Actor]:
    with Actor() as made:
        yield made


@pytest.fixture(scope="session")
def hasty() -> Iterator[Actor]:
    with Actor("hasty_subject:hasty", path=HERE) as made:
        yield made


@pytest.fixture(scope="session")
def clumsy() -> Iterator[Actor]:
    with Actor("hasty_subject:clumsy", path=HERE) as made:
        yield made
