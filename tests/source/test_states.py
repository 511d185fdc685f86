"""A state is one text for one place; what is none is told from what is another's or newer."""

from __future__ import annotations

import json

import pytest

from quiver import errors
from quiver.source import Split, decode_state, encode_state


def test_equal_places_are_equal_texts_whatever_the_order_they_were_named_in() -> None:
    first = encode_state("files", 1, {"row": 3, "file": 17})
    assert first == encode_state("files", 1, {"file": 17, "row": 3})
    assert first == '{"at":{"file":17,"row":3},"connector":"files","version":1}'
    assert first.isascii()
    assert decode_state(first, connector="files", version=1) == {"file": 17, "row": 3}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "17",
        "null",
        "[]",
        "{}",
        '{"at":{},"connector":"files"}',
        '{"at":[],"connector":"files","version":1}',
        '{"at":{},"connector":"files","version":true}',
        '{"at":{},"connector":"files","version":0}',
        '{"at":{},"connector":"files","version":1,"more":1}',
        "[" * 100_000,
    ],
)
def test_what_is_no_state_is_refused_and_shown_in_part(text: str) -> None:
    with pytest.raises(errors.InputError, match="this is no state of a split") as caught:
        decode_state(text, connector="files", version=1)
    assert len(str(caught.value)) < 250
    assert "None for the start" in caught.value.hint


def test_the_state_of_another_connector_or_a_newer_version_is_told_as_such() -> None:
    state = encode_state("files", 2, {"row": 3})
    with pytest.raises(errors.InputError, match="connector 'files' is given to 'nats'"):
        decode_state(state, connector="nats", version=2)
    with pytest.raises(errors.VersionError, match="version 2, known is 1"):
        decode_state(state, connector="files", version=1)
    assert decode_state(state, connector="files", version=3) == {"row": 3}


def test_no_number_gets_into_a_state_that_json_does_not_have() -> None:
    with pytest.raises(ValueError, match="JSON"):
        encode_state("files", 1, {"row": float("nan")})


def test_splits_are_the_same_by_their_ids() -> None:
    assert Split("core_0", {"path": "a"}) == Split("core_0", {"path": "b"})
    assert len({Split("core_0", {"path": "a"}), Split("core_0", {"path": "b"})}) == 1
    assert json.loads(json.dumps(dict(Split("core_0", {"path": "a"}).properties))) == {"path": "a"}
