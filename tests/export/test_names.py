"""The name of a file says what it holds, and the names together what is done."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.export.names import Covered, FileRange

PLACES = st.tuples(st.integers(0, 3), st.integers(0, 9))


def test_a_name_is_as_the_page_says() -> None:
    name = "logs-0-0000000000000003.000017-0000000000000005.000002.parquet"
    found = FileRange("logs", 0, (3, 17), (5, 2))
    assert found.name("parquet") == name
    assert FileRange.parse(name) == found


@given(
    slot=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True),
    core=st.integers(0, 1023),
    ends=st.tuples(*[st.tuples(st.integers(0, 10**16 - 1), st.integers(0, 2**32))] * 2),
    kind=st.sampled_from(["parquet", "arrow", "csv", "ndjson"]),
)
def test_a_name_gives_back_what_it_was_made_of(slot, core, ends, kind) -> None:
    found = FileRange(slot, core, min(ends), max(ends))
    assert FileRange.parse(found.name(kind)) == found


@pytest.mark.parametrize(
    "name",
    [
        "logs.parquet",
        "-0-0000000000000003.000017-0000000000000005.000002.parquet",
        "logs-0-0000000000000003.000017-0000000000000005.000002.parquet.tmp",
        "logs-0-0000000000000003.000017-0000000000000005.000002.orc",
        "logs-0-0000000000000003.000017-0000000000000003.000016.parquet",
        "logs-00-0000000000000003.000017-0000000000000005.000002.parquet",
        "logs-0-0000000000000003.0000017-0000000000000005.000002.parquet",
        "logs-0-3.17-5.2.parquet",
    ],
)
def test_other_names_are_somebody_else_s(name) -> None:
    assert FileRange.parse(name) is None


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 1), PLACES, PLACES)))
def test_a_bundle_is_covered_if_a_range_has_it(drawn) -> None:
    covered = Covered()
    ranges = [FileRange(slot, core, min(p, q), max(p, q)) for slot, core, p, q in drawn]
    for found in ranges:
        covered.add(found)
    for slot in "ab":
        for core in (0, 1):
            for place in [(segment, index) for segment in range(4) for index in range(10)]:
                assert covered.has(slot, core, place) == any(
                    r.slot == slot and r.core == core and r.first <= place <= r.last for r in ranges
                )
