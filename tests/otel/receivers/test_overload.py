"""More than there is room for, and the end: who is in work is answered, the others come again."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection

import grpc
import pytest
from one_sender import EXPORT, KIND, SENDERS
from receiver_kit import PATIENCE, Notebook, logs_request, served

from quiver.errors import InputError
from quiver.otel.receivers import Budget

ONE = logs_request("one")


@pytest.fixture(params=SENDERS)
def protocol(request) -> str:
    return request.param


@pytest.fixture
def notebook() -> Notebook:
    return Notebook()


def test_nobody_is_answered_before_the_intake_has_returned(protocol, notebook) -> None:
    send = SENDERS[protocol]
    notebook.may_go.clear()
    with served(protocol, notebook) as here, ThreadPoolExecutor() as senders:
        answer = senders.submit(send, here, ONE)
        notebook.await_waiting(1)
        assert not answer.done()
        notebook.may_go.set()
        assert answer.result(PATIENCE) == "200"
    assert notebook.texts() == ["one"]


def test_beyond_the_limit_the_answer_comes_at_once_and_is_to_try_again(protocol, notebook) -> None:
    send = SENDERS[protocol]
    notebook.may_go.clear()
    with served(protocol, notebook, requests=3) as here, ThreadPoolExecutor(3) as senders:
        answers = [senders.submit(send, here, logs_request(str(n))) for n in range(3)]
        notebook.await_waiting(3)
        assert [send(here, ONE) for _ in range(5)] == ["later"] * 5
        assert here.desk.gauges()["quiver.receiver.waiting_requests"] == 3
        notebook.may_go.set()
        assert [answer.result(PATIENCE) for answer in answers] == ["200"] * 3
        assert send(here, ONE) == "200"
        assert here.refused() == {"busy": 5}
    assert sorted(notebook.texts()) == ["0", "1", "2", "one"]


def test_ten_times_as_much_as_there_is_room_for_stays_within_it(protocol, notebook) -> None:
    send, seen = SENDERS[protocol], []
    body = logs_request("x" * 200_000)

    class Looking(Notebook):
        def take(self, signal, batches):
            seen.append(here.desk.gauges()["quiver.receiver.waiting_bytes"])
            return super().take(signal, batches)

    looking = Looking()
    with (
        served(protocol, looking, requests=2, message_bytes=250_000) as here,
        ThreadPoolExecutor(20) as senders,
    ):
        answers = list(senders.map(lambda _: send(here, body), range(100)))
        assert set(answers) <= {"200", "later"}
        assert max(seen) <= here.desk.limits.memory_bytes
        assert here.desk.gauges()["quiver.receiver.waiting_bytes"] == 0
        assert here.desk.gauges()["quiver.receiver.waiting_requests"] == 0
    assert len(looking.taken) == answers.count("200") > 0


def test_receivers_with_one_budget_stay_within_it_together(notebook) -> None:
    """Each alone might hold twice as much; what one of them holds is missed by the other."""
    budget, body, seen = Budget(1_000_000), logs_request("x" * 200_000), []

    class Looking(Notebook):
        def take(self, signal, batches):
            seen.append(budget.held_bytes)
            return super().take(signal, batches)

    looking = Looking()
    limits = {"requests": 8, "message_bytes": 250_000, "budget": budget}
    with (
        served("grpc", looking, **limits) as one,
        served("http", looking, **limits) as other,
        ThreadPoolExecutor(20) as senders,
    ):
        ways = [(SENDERS["grpc"], one), (SENDERS["http"], other)] * 60
        answers = list(senders.map(lambda way: way[0](way[1], body), ways))
        assert set(answers) <= {"200", "later"}
        assert max(seen) <= budget.memory_bytes
        assert budget.take(budget.memory_bytes)
        assert [send(here, ONE) for send, here in ways[:2]] == ["later"] * 2
        budget.take(-budget.memory_bytes)
        assert [send(here, ONE) for send, here in ways[:2]] == ["200"] * 2
    assert budget.held_bytes == 0
    assert len(looking.taken) - 2 == answers.count("200") > 0


def test_at_the_end_who_is_in_work_is_answered_and_nobody_else_gets_in(protocol, notebook) -> None:
    send, begun, late = SENDERS[protocol], threading.Event(), []
    notebook.may_go.clear()
    with served(protocol, notebook) as here, ThreadPoolExecutor() as senders:
        begin_closing = here.door.begin_closing
        here.door.begin_closing = lambda: (begin_closing(), begun.set())
        answer = senders.submit(send, here, ONE)
        notebook.await_waiting(1)
        closing = senders.submit(here.servers.close)
        assert begun.wait(PATIENCE)
        while len(late) < 1000 and "gone" not in late:
            late.append(send(here, logs_request("late")))
        is_over = closing.done()
        notebook.may_go.set()
        assert answer.result(PATIENCE) == "200"
        closing.result(PATIENCE)
    assert set(late) <= {"later", "gone"}
    assert late[-1] == "gone"
    assert not is_over
    assert notebook.texts() == ["one"]


def test_behind_the_end_the_intake_is_not_called_any_more(protocol, notebook) -> None:
    send = SENDERS[protocol]
    notebook.may_go.clear()
    with served(protocol, notebook) as here, ThreadPoolExecutor() as senders:
        answer = senders.submit(send, here, ONE)
        notebook.await_waiting(1)
        closing = senders.submit(here.servers.close, 0.05)
        assert answer.result(PATIENCE) != "200"  # It took longer than it may.
        assert not closing.done()
        notebook.may_go.set()
        closing.result(PATIENCE)
        assert notebook.waiting == 0
        here.servers.close()
    assert notebook.texts() == ["one"]  # It may come twice, and is not lost.


def test_a_sender_who_does_not_wait_leaves_no_room_taken(protocol, notebook) -> None:
    notebook.may_go.clear()
    with served(protocol, notebook) as here:
        if protocol == "http":
            connection = HTTPConnection("127.0.0.1", here.port, timeout=PATIENCE)
            connection.request("POST", "/v1/logs", ONE, KIND)
            notebook.await_waiting(1)
            connection.close()
        else:
            with grpc.insecure_channel(here.address) as channel:
                call = channel.unary_unary(EXPORT).future(ONE)
                notebook.await_waiting(1)
                call.cancel()
        assert here.desk.gauges()["quiver.receiver.waiting_requests"] == 1
        notebook.may_go.set()
        notebook.await_taken(1)
        here.servers.close()
        assert here.desk.gauges()["quiver.receiver.waiting_requests"] == 0


def test_an_address_that_is_taken_is_told(protocol, notebook) -> None:
    with served(protocol, notebook) as here:
        other = served(protocol, notebook, address=here.address)
        with pytest.raises(InputError, match="cannot listen"):
            other.__enter__()
        assert SENDERS[protocol](here, ONE) == "200"


def test_two_may_share_a_port_if_they_say_so(protocol, notebook) -> None:
    with (
        served(protocol, notebook, reuse_port=True) as first,
        served(protocol, notebook, reuse_port=True, address=first.address) as second,
    ):
        assert first.address == second.address
        assert SENDERS[protocol](second, ONE) == "200"


def test_many_at_once_are_all_answered_and_all_there(protocol, notebook) -> None:
    bodies = [logs_request(str(n)) for n in range(100)]
    with served(protocol, notebook, requests=16) as here, ThreadPoolExecutor(8) as senders:
        answers = senders.map(lambda body: SENDERS[protocol](here, body), bodies)
        assert set(answers) == {"200"}
    assert sorted(map(int, notebook.texts())) == list(range(100))
