"""What is NATS's own: gaps, streams made anew, purging, a server that goes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from contextlib import closing, suppress

import pytest
from source_rigs import NatsRig, NatsServer, nats_missing

from quiver.errors import ClosedError, ConfigError, SourceError
from quiver.source import Split

pytestmark = pytest.mark.skipif(bool(nats_missing()), reason=nats_missing() or "-")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    found = NatsServer(tmp_path_factory.mktemp("nats"))
    yield found
    found.stop()


@pytest.fixture
def rig(request, server):
    with closing(NatsRig(server, request.node.name.replace("[", "-").replace("]", ""))) as found:
        yield found


def connector(rig: NatsRig, **options: object):
    from dataclasses import replace

    from quiver.source.nats import NatsConnector

    return NatsConnector(replace(rig.options, **options))


def read(rig: NatsRig, state: str | None, count: int, **options: object):
    split = rig.list_splits()[0]
    found = []
    with closing(connector(rig, **options).reader(split, state, None)) as reader:
        for _ in range(100):
            if sum(batch.batch.num_rows for batch in found) >= count:
                return found
            batch = reader.next(10)
            assert batch is not None
            found.append(batch)
    raise AssertionError("there are not so many rows")


def sequences(batches) -> list[int]:
    return [place for batch in batches for place in batch.offsets.to_pylist()]


def test_a_message_comes_with_all_that_is_known_of_it(rig) -> None:
    rig.feed(1)
    (batch,) = read(rig, None, 1)
    (row,) = batch.batch.to_pylist()
    assert row["payload"] == b"message 0"
    assert row["subject"] == f"{rig.stream}.a"
    assert row["sequence"] == 1
    assert row["headers"] == [("n", "1")]
    assert batch.batch["time"].cast("int64")[0].as_py() > 1_700_000_000 * 10**9


@pytest.mark.parametrize("how", ["purged", "deleted"])
def test_messages_that_are_gone_are_an_error_or_passed_over_as_told(rig, how: str) -> None:
    rig.feed(10)
    state = read(rig, None, 4)[0].state
    if how == "purged":
        rig.ask(lambda js: js.purge_stream(rig.stream, seq=8))
        gone, rest = "5 to 7", [8, 9, 10]
    else:
        rig.ask(lambda js: js.delete_msg(rig.stream, 6))
        gone, rest = "6 to 6", [5, 7, 8, 9, 10]
    with pytest.raises(SourceError, match=f"messages {gone} are gone") as caught:
        read(rig, state, len(rest))
    assert not caught.value.retryable
    assert "gap" in caught.value.hint
    assert sequences(read(rig, state, len(rest), gap="tell")) == rest


def test_what_was_read_is_no_gap_when_it_goes(rig) -> None:
    rig.feed(6)
    state = read(rig, None, 6)[-1].state
    rig.ask(lambda js: js.purge_stream(rig.stream))
    rig.feed(2)
    assert sequences(read(rig, state, 2)) == [7, 8]


def test_a_stream_made_anew_is_another_one(rig) -> None:
    rig.feed(6)
    state = read(rig, None, 6)[-1].state
    rig.ask(lambda js: js.delete_stream(rig.stream))
    with pytest.raises(SourceError, match="there is no stream"):
        read(rig, state, 1)
    rig.ask(lambda js: js.add_stream(name=rig.stream, subjects=[f"{rig.stream}.>"]))
    rig.feed(9)
    with pytest.raises(SourceError, match="made anew"):
        read(rig, state, 1)
    assert sequences(read(rig, None, 9)) == list(range(1, 10))


def test_only_what_is_committed_is_purged_and_only_if_asked(rig) -> None:
    rig.feed(10)
    name = rig.list_splits()[0].id
    state = read(rig, None, 4)[0].state
    connector(rig).acknowledge({name: state})
    assert rig.ask(lambda js: js.stream_info(rig.stream)).state.first_seq == 1
    connector(rig, purge=True).acknowledge({name: state})
    assert rig.ask(lambda js: js.stream_info(rig.stream)).state.first_seq == 5
    assert sequences(read(rig, state, 6)) == [5, 6, 7, 8, 9, 10]


def test_a_subject_alone_is_purged_alone_and_its_state_follows_the_others(rig) -> None:
    rig.feed(4)
    options = {"subjects": (f"{rig.stream}.a",), "batch_rows": 500}
    mine = connector(rig, **options, purge=True)
    with closing(mine.enumerator()) as enumerator:
        (split,) = enumerator.list_splits()
    with closing(mine.reader(split, None, None)) as reader:
        batch = reader.next(10)
        assert sequences([batch]) == [1, 3]
        mine.acknowledge({split.id: batch.state})
        assert rig.ask(lambda js: js.stream_info(rig.stream)).state.messages == 2
        for _ in range(300):
            rig.ask(lambda js: js.publish(f"{rig.stream}.b", b""))
        moved = reader.next(0.01)
        assert moved.batch.num_rows == 0
    rig.ask(lambda js: js.purge_stream(rig.stream))
    with closing(mine.reader(split, moved.state, None)) as reader:
        assert reader.next(0) is None
    with pytest.raises(SourceError, match="may be gone"):
        mine.reader(split, batch.state, None)


def test_a_consumer_that_the_server_forgot_is_made_anew(rig, monkeypatch) -> None:
    monkeypatch.setattr("quiver.source.nats.pulling.ANSWER_SECONDS", 0.3)
    rig.feed(4)
    with closing(rig.connector.reader(rig.list_splits()[0], None, None)) as reader:
        assert sequences([reader.next(10)]) == [1, 2, 3, 4]
        for info in rig.ask(lambda js: js.consumers_info(rig.stream)):
            rig.ask(lambda js, name=info.name: js.delete_consumer(rig.stream, name))
        rig.feed(3)
        assert sequences([reader.next(10)]) == [5, 6, 7]


def test_a_server_that_goes_is_a_failure_to_be_tried_again(tmp_path) -> None:
    server = NatsServer(tmp_path)
    try:
        with closing(NatsRig(server, "S")) as rig:
            rig.feed(6)
            split = rig.list_splits()[0]
            with closing(rig.connector.reader(split, None, None)) as reader:
                state = reader.next(10).state
                server.stop()
                with pytest.raises(SourceError, match="NATS at") as caught:
                    for _ in range(10):
                        reader.next(1)
                assert caught.value.retryable
            with pytest.raises(SourceError, match="is the server there") as caught:
                rig.connector.reader(split, state, None)
            assert caught.value.retryable
            server.start()
            with closing(rig.connector.reader(split, state, None)) as reader:
                assert sequences([reader.next(10)]) == [5, 6]
    finally:
        server.stop()


def test_a_close_that_meets_an_answer_wakes_who_asks_too(server) -> None:
    """Python's wait_for may give the answer then, and the cancel is forgotten."""
    from quiver.source.nats.link import Link

    link = Link([server.url], {})
    began, ended = threading.Event(), []

    async def asks_once_more() -> None:
        with suppress(asyncio.CancelledError):
            began.set()
            await asyncio.Event().wait()
        await asyncio.Event().wait()

    def ask() -> None:
        try:
            link.ask(asks_once_more)
        except ClosedError as error:
            ended.append(error)

    waiter = threading.Thread(target=ask, daemon=True)
    waiter.start()
    began.wait()
    link.close()
    waiter.join()
    assert len(ended) == 1


def test_streams_are_found_and_stay_listed(server) -> None:
    from quiver.source.nats import NatsConnector, NatsOptions

    with closing(NatsRig(server, "found-one")) as one:
        with closing(NatsConnector(NatsOptions(servers=(server.url,))).enumerator()) as every:
            assert "found-one" in [split.id for split in every.list_splits()]
            one.ask(lambda js: js.add_stream(name="found-two", subjects=["two"]))
            one.ask(lambda js: js.add_stream(name="KV_hidden", subjects=["kv"]))
            names = [split.id for split in every.list_splits()]
            assert "found-two" in names
            assert "KV_hidden" not in names
            one.ask(lambda js: js.delete_stream("found-two"))
            assert [split.id for split in every.list_splits()] == names
        with (
            closing(connector(one, streams=("nowhere",)).enumerator()) as named,
            pytest.raises(SourceError, match="there is no stream nowhere"),
        ):
            named.list_splits()


def test_wrong_options_are_refused() -> None:
    from quiver.source.nats import NatsOptions

    for wrong in (
        {"servers": ()},
        {"gap": "ignore"},
        {"batch_rows": 0},
        {"subjects": ("a", "a")},
    ):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            NatsOptions(**wrong)
    assert Split("x").id == "x"


def test_without_the_package_one_error_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['nats'] = None\n"
        "from quiver.source.nats import NatsConnector\n"
        "from quiver.errors import ConfigError\n"
        "try:\n    NatsConnector().enumerator()\n"
        "except ConfigError as error:\n    print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert "pip install 'quiver-store[nats]'" in done.stdout
