"""Names of objects: the example of the ULID specification, times, strangers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.ship.batch import mint_name, mint_ulid, name_time_ms, ulid_time_ms

MS = 1_000_000
SPEC_TIME_MS = 1_469_918_176_385


def test_the_example_of_the_specification() -> None:
    assert mint_ulid(SPEC_TIME_MS * MS, bytes)[:10] == "01ARYZ6S41"
    assert ulid_time_ms("01ARYZ6S41TSV4RRFFQ69G5FAV") == SPEC_TIME_MS


def test_a_name_says_when_it_was_minted() -> None:
    name = mint_name(SPEC_TIME_MS * MS + 999_999, bytes)
    assert name == "01ARYZ6S410000000000000000.batch"
    assert name_time_ms(name) == SPEC_TIME_MS
    page = mint_name(5 * MS, bytes, ending=".page")
    assert (name_time_ms(page, ending=".page"), name_time_ms(page)) == (5, None)


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".batch",
        "manifest",
        "01ARYZ6S410000000000000000",
        "01ARYZ6S41000000000000000.batch",
        "01ARYZ6S4100000000000000000.batch",
        "81ARYZ6S410000000000000000.batch",
        "01ARYZ6S41000000000000000U.batch",
        "01aryz6s410000000000000000.batch",
        "01ARYZ6S410000000000000000.batch.tmp",
        "x/01ARYZ6S410000000000000000.batch",
        "\u0661" * 26 + ".batch",
    ],
)
def test_scenario_55_other_names_are_no_names(name) -> None:
    assert name_time_ms(name) is None


@given(st.integers(0, (1 << 48) - 1), st.binary(min_size=10, max_size=10))
def test_time_and_randomness_are_all_in_it(time_ms, lot) -> None:
    text = mint_ulid(time_ms * MS, lambda count: lot[:count])
    assert len(text) == 26
    assert ulid_time_ms(text) == time_ms
    assert text == mint_ulid(time_ms * MS, lambda count: lot[:count])
    assert text != mint_ulid(time_ms * MS, lambda count: bytes([lot[0] ^ 1]) + lot[1:count])


@given(st.integers(0, 1 << 40), st.integers(0, 1 << 40))
def test_names_sort_by_time(one, two) -> None:
    low, high = sorted([one, two])
    assert mint_ulid(low * MS, bytes) <= mint_ulid(high * MS, lambda count: b"\xff" * count)


def test_a_clock_that_is_out_of_range_gives_the_nearest_time() -> None:
    assert ulid_time_ms(mint_ulid(-5, bytes)) == 0
    assert ulid_time_ms(mint_ulid(1 << 90, bytes)) == (1 << 48) - 1
