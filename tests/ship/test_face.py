"""What ``quiver.ship`` gives to whoever imports it, and how a queue is opened."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pytest

from quiver import ship
from quiver.errors import ConfigError, RemoteError
from quiver.ship.objects import MemoryBucket


def test_each_name_is_there() -> None:
    for name in ship.__all__:
        assert getattr(ship, name).__name__ == name
    with pytest.raises(AttributeError, match=r"quiver\.ship.*'nothing'"):
        _ = ship.nothing


def test_who_fetches_loads_no_engine() -> None:
    code = (
        "import sys; from quiver.ship import Fetcher, open_queue; "
        "found = {'quiver.engine', 'quiver.ship.shipper', 'obstore'} & sys.modules.keys(); "
        "print(sorted(found))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_a_folder_is_a_queue(tmp_path) -> None:
    queue = ship.open_queue(str(tmp_path / "queue"))
    with ship.Producer(queue) as producer:
        assert producer.produce([b"one", b"two"]).wait_durable().sequence == 0
    with ship.Consumer.open(queue) as consumer:
        batch = consumer.next_batch()
        assert batch is not None
        assert [bytes(record) for record in batch.records] == [b"one", b"two"]


def test_options_that_a_store_has_not_are_refused(tmp_path) -> None:
    with pytest.raises(ConfigError, match="region"):
        ship.open_queue(str(tmp_path), store={"region": "here"})


class _Heedless:
    """A store that puts whatever the condition says."""

    place = "heedless"

    def __init__(self) -> None:
        self._bucket = MemoryBucket()

    def put_if(self, key: str, data: bytes, tag: str | None, *, within: float | None = None) -> str:
        del tag, within
        return self._bucket.put(key, data)

    def delete(self, keys: Sequence[str]) -> Sequence[str]:
        return self._bucket.delete(keys)


@pytest.mark.parametrize("probed", [True, False])
def test_a_store_is_tried_unless_that_is_not_wanted(probed, monkeypatch) -> None:
    monkeypatch.setattr("quiver.ship.opening.open_bucket", lambda _, **__: _Heedless())
    if probed:
        with pytest.raises(
            RemoteError, match="heedless is no store for queues and collections: it puts over"
        ):
            ship.open_queue("s3://bucket/queue")
    else:
        ship.open_queue("s3://bucket/queue", probed=False)
