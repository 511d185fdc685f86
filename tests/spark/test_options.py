"""The table of options: names in any case, values checked, each only where it has a meaning."""

from __future__ import annotations

import pickle

import pytest

from quiver.errors import ConfigError
from quiver.spark import options as o


def test_values_are_read_and_names_taken_in_any_case() -> None:
    given = o.Options({"PATH": "a", "maxpartitionbytes": "1MiB", "Columns": " b , c,"})
    assert given.get(o.PATH, "") == "a"
    assert given.get(o.MAX_PARTITION_BYTES, 0) == 1 << 20
    assert given.get(o.COLUMNS, ()) == ("b", "c")
    assert given.get(o.MIN_PARTITIONS, 7) == 7


@pytest.mark.parametrize(
    "key,message",
    [
        ("colums", "no option 'colums' .did you mean columns?"),
        ("max_partition_bytes", "did you mean maxPartitionBytes?"),
        ("xyz", "no option 'xyz' .known: path, slot, columns"),
    ],
)
def test_an_unknown_name_is_an_error_with_the_nearest_one(key: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        o.Options({key: "a"})


@pytest.mark.parametrize("given", [{}, {"path": ""}])
def test_a_needed_option_may_not_be_empty(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"needs the option 'path' \(say it\)"):
        o.Options(given).need(o.PATH, "say it")


def test_an_option_has_a_meaning_only_for_what_it_is_for() -> None:
    given = o.Options({"path": "a", "columns": "b"})
    given.check_use("batch")
    with pytest.raises(ConfigError, match="columns: has no meaning for writing"):
        given.check_use("write")


def test_options_travel_between_processes() -> None:
    given = pickle.loads(pickle.dumps(o.Options({"path": "a"})))
    assert given.need(o.PATH, "") == "a"


@pytest.mark.parametrize("value,found", [("true", True), ("False", False)])
def test_truth_is_written_as_spark_writes_it(value, found) -> None:
    assert o.truth("x", value) is found


@pytest.mark.parametrize("value", ["", "1", "yes"])
def test_other_words_are_no_truth(value: str) -> None:
    with pytest.raises(ConfigError, match=r"x: .* is none of true, false"):
        o.truth("x", value)


def test_of_a_table_that_is_created_only_what_the_user_said_counts() -> None:
    given = o.Options({"owner": "me", "location": "file:/a", "slot": "b", "option.slot": "b"})
    assert given.get(o.PATH, "") == "/a"
    assert given.get(o.SLOT, "") == "b"
    with pytest.raises(ConfigError, match="no option 'colums'"):
        o.Options({"owner": "me", "option.colums": "a"})
