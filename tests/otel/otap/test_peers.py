"""Our exporter and our receiver of OTAP, and each of them with a peer that misbehaves."""

import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
import pyarrow as pa
import pytest
from otap_kit import drawn_batch, told
from receiver_kit import PATIENCE, TOKEN, Served, plain_reading

from quiver.bundle import RecordBundle
from quiver.clock import SystemClock
from quiver.errors import CapacityError, InputError
from quiver.otel import Batch, Signal
from quiver.otel.batch import of_request
from quiver.otel.exporters.endpoint import Endpoint, OtlpOptions
from quiver.otel.exporters.otap_grpc import OtapGrpcExporter
from quiver.otel.nodes import Accepted, Delivered, Refused, Retry
from quiver.otel.otap import StreamWriter
from quiver.otel.otap.format import (
    ArrowPayload,
    BatchRecords,
    BatchStatus,
    decode_records,
    decode_status,
    encode_records,
    encode_status,
)
from quiver.otel.receivers import Budget, Desk, Limits, Servers, Settings, Token, otap_over_grpc
from quiver.units import SECOND

LOGS = "/opentelemetry.proto.experimental.arrow.v1.ArrowLogsService/ArrowLogs"


class Shelf:
    """An intake that keeps batches; it may fail, and may be held up."""

    def __init__(self) -> None:
        self.kept: list[Batch] = []
        self.errors: list[Exception] = []
        self.may_go, self.changed, self.waiting = threading.Event(), threading.Condition(), 0
        self.may_go.set()

    def take(self, signal: Signal, batches) -> None:
        with self.changed:
            self.waiting += 1
            self.changed.notify_all()
        assert self.may_go.wait(PATIENCE)
        with self.changed:
            self.waiting -= 1
            if self.errors:
                raise self.errors.pop(0)
            assert all(batch.signal == signal for batch in batches)
            self.kept += batches

    def await_waiting(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.waiting >= count, PATIENCE)


@contextmanager
def served(
    shelf: Shelf,
    *,
    in_work: int = 256,
    address: str = "127.0.0.1:0",
    budget: Budget | None = None,
    **options,
):
    limits = Limits(requests=8)
    desk = Desk(shelf, plain_reading, limits=limits, clock=SystemClock(), budget=budget)
    door = otap_over_grpc(
        desk, Settings(address=address, limits=limits, **options), in_work=in_work
    )
    with Servers() as servers:
        servers.open(door)
        yield Served(desk, door, servers)


@contextmanager
def exporter(address: str, *, decoded=lambda batch: [batch], payloads="none", **options):
    made = OtlpOptions(endpoint=Endpoint.parse(address, port=4317), **options)
    found = OtapGrpcExporter(made, decoded, compression=payloads)
    try:
        yield found
    finally:
        found.close()


def out(*batches: Batch, attempt: int = 1) -> list[Delivered]:
    return [Delivered(batch, None, attempt) for batch in batches]


@contextmanager
def raw(address: str):
    """A stream by hand: what to send goes into a queue."""
    outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    with grpc.insecure_channel(address) as channel:
        call = channel.stream_stream(LOGS)(iter(outgoing.get, None))
        try:
            yield outgoing, call
        finally:
            outgoing.put(None)
            call.cancel()


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_every_signal_arrives_as_it_was_sent(compression: str) -> None:
    shelf = Shelf()
    batches = [drawn_batch(signal, seed, rows=10) for seed in range(5) for signal in Signal]
    with (
        served(shelf) as server,
        exporter(server.address, payloads="zstd", compression=compression, in_flight=4) as sender,
    ):
        assert list(sender.export(out(*batches))) == [Accepted()] * len(batches)
    assert sorted(repr(sorted(told(each).items())) for each in shelf.kept) == sorted(
        repr(sorted(told(each).items())) for each in batches
    )


def test_what_is_otlp_is_made_arrow_first_and_parts_are_answered_as_one() -> None:
    parts = [drawn_batch(Signal.LOGS, seed, rows=3) for seed in (1, 2)]

    def decoded(batch: Batch) -> list[Batch]:
        if batch.items == 9:
            raise InputError("it is no OTLP")
        return parts if batch.is_otlp else [batch]

    batch = of_request(Signal.LOGS, b"x", 6)
    shelf = Shelf()
    with served(shelf) as server, exporter(server.address, decoded=decoded) as sender:
        assert list(sender.export(out(batch))) == [Accepted()]
        assert len(shelf.kept) == 2
        shelf.errors = [InputError("no"), CapacityError("full")]
        first, second = sender.export(out(batch, of_request(Signal.LOGS, b"x", 9)))
        assert isinstance(first, Retry)
        assert second == Refused("it cannot be made Arrow: it is no OTLP")
    shelf = Shelf()  # What was sent before may still be on its way to the other one.
    with served(shelf) as server, exporter(server.address, decoded=decoded) as sender:
        shelf.errors = [InputError("no")]
        (partly,) = sender.export(out(batch, attempt=2))
        assert partly == Accepted(3, "INVALID_ARGUMENT: no")
        shelf.errors = [InputError("no"), InputError("nor this")]
        assert sender.export(out(batch, attempt=3)) == [Refused("INVALID_ARGUMENT: no")]


def test_at_capacity_a_batch_is_to_be_sent_again_and_the_stream_goes_on() -> None:
    shelf, batch = Shelf(), drawn_batch(Signal.LOGS, 1, rows=3)
    with served(shelf) as server, exporter(server.address) as sender:
        assert sender.export(out(batch)) == [Accepted()]
        shelf.errors = [CapacityError("secret paths"), RuntimeError("secret too")]
        full, failed = sender.export(out(batch)) + sender.export(out(batch))
        assert full == Retry("RESOURCE_EXHAUSTED: there is no room for it now")
        assert failed == Retry("UNAVAILABLE: it could not be worked on")
        assert sender.export(out(batch)) == [Accepted()]
        assert server.refused() == {"full": 1, "failed": 1}
    assert len(shelf.kept) == 2


def test_dictionaries_of_open_streams_are_of_the_budget_of_bytes() -> None:
    words = pa.DictionaryArray.from_arrays(pa.array([0] * 3, pa.uint16()), ["x" * 100_000])
    logs = drawn_batch(Signal.LOGS, 1, rows=3).bundle["logs"]
    logs = logs.select(["id", "resource", "scope"]).append_column("severity_text", words)
    batch, shelf = Batch(Signal.LOGS, RecordBundle({"logs": logs})), Shelf()
    budget = Budget(1 << 20)
    with served(shelf, budget=budget) as server:
        with exporter(server.address) as sender:
            assert sender.export(out(batch)) == [Accepted()]
            assert sender.export(out(batch)) == [Accepted()]
            assert 100_000 <= budget.held_bytes <= 110_000
        server.servers.close()
    assert budget.held_bytes == 0
    budget = Budget(150_000)  # Room for what comes, and none to keep anything of it.
    with served(shelf, budget=budget) as server, exporter(server.address) as sender:
        for _ in range(2):
            [answer] = sender.export(out(batch))
            assert isinstance(answer, Retry)
        assert server.refused()["full"] > 0
        server.servers.close()
    assert (budget.held_bytes, len(shelf.kept)) == (0, 2)


def test_only_the_first_on_a_stream_is_refused_for_ever() -> None:
    shelf, batch = Shelf(), drawn_batch(Signal.LOGS, 1, rows=3)
    with served(shelf) as server, exporter(server.address) as sender:
        sender.export(out(batch))
        shelf.errors = [InputError("never")] * 2
        assert sender.export(out(batch)) == [Retry("INVALID_ARGUMENT: never")]
        assert sender.export(out(batch, attempt=2)) == [Refused("INVALID_ARGUMENT: never")]
        assert sender.export(out(batch)) == [Accepted()]


def test_no_answer_goes_out_before_the_batch_is_safe() -> None:
    shelf, batch = Shelf(), drawn_batch(Signal.LOGS, 1, rows=3)
    shelf.may_go.clear()
    with (
        served(shelf) as server,
        exporter(server.address) as sender,
        ThreadPoolExecutor(1) as threads,
    ):
        waiting = threads.submit(sender.export, out(batch))
        shelf.await_waiting(1)
        assert not waiting.done()
        assert shelf.kept == []
        shelf.may_go.set()
        assert waiting.result(PATIENCE) == [Accepted()]


def messages(count: int, first: int = 0) -> list[bytes]:
    """Batches whose numbers count from ``first``; Go's sender begins with 0."""
    writer = StreamWriter(Signal.LOGS)
    written = [writer.write(drawn_batch(Signal.LOGS, each, rows=2)) for each in range(count)]
    return [
        encode_records(BatchRecords(first + number, each.payloads))
        for number, each in enumerate(written)
    ]


def test_so_many_batches_of_a_stream_are_in_work_and_no_more_is_read() -> None:
    shelf = Shelf()
    shelf.may_go.clear()
    with served(shelf, in_work=3) as server, raw(server.address) as (outgoing, call):
        for message in messages(7):
            outgoing.put(message)
        shelf.await_waiting(3)
        shelf.may_go.set()
        answered = {decode_status(next(call)).batch_id for _ in range(7)}
    assert answered == set(range(7))
    assert len(shelf.kept) == 7
    assert shelf.waiting == 0


def bad_payload(number: int) -> bytes:
    return encode_records(BatchRecords(number, (ArrowPayload("x", 30, b"\xff" * 40),)))


def test_arrow_that_cannot_be_read_is_answered_and_ends_the_stream() -> None:
    shelf = Shelf()
    with served(shelf) as server, raw(server.address) as (outgoing, call):
        for message in (*messages(1), bad_payload(7), *messages(1, first=8)):
            outgoing.put(message)
        answers = {each.batch_id: each for each in map(decode_status, call)}
        assert call.code() is grpc.StatusCode.OK
    assert {number: each.code for number, each in answers.items()} == {0: 0, 7: 3}
    assert "cannot be read" in answers[7].message
    assert len(shelf.kept) == 1


def test_a_message_without_a_number_ends_the_stream_and_no_batch_is_blamed() -> None:
    shelf = Shelf()
    with served(shelf) as server, raw(server.address) as (outgoing, call):
        outgoing.put(b"\xff" * 40)
        with pytest.raises(grpc.RpcError) as caught:
            list(call)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert server.refused() == {"malformed": 1}
    assert shelf.kept == []


def test_a_batch_that_is_refused_leaves_the_stream_as_it_is() -> None:
    shelf, (first, second) = Shelf(), messages(2)
    records = decode_records(first)
    alone = tuple(each for each in records.payloads if each.kind != 30)
    with served(shelf) as server, raw(server.address) as (outgoing, call):
        outgoing.put(encode_records(BatchRecords(5, (*alone, ArrowPayload("y", 30, b"")))))
        assert decode_status(next(call)).code == 3
    with served(shelf) as server, raw(server.address) as (outgoing, call):
        outgoing.put(encode_records(BatchRecords(5, alone)))
        assert decode_status(next(call)) == BatchStatus(5, 3, "a batch of logs has no payload logs")
        outgoing.put(first)
        outgoing.put(second)
        assert sorted(decode_status(next(call)).code for _ in range(2)) == [0, 0]
    assert len(shelf.kept) == 2


def test_who_brings_no_token_is_told_and_sends_again() -> None:
    shelf, batch = Shelf(), drawn_batch(Signal.LOGS, 1, rows=3)
    with served(shelf, token=Token(TOKEN)) as server:
        with exporter(server.address) as sender:
            (outcome,) = sender.export(out(batch))
            assert isinstance(outcome, Retry)
            assert outcome.reason.startswith("UNAUTHENTICATED")
        with exporter(server.address, headers={"Authorization": f"Bearer {TOKEN}"}) as sender:
            assert sender.export(out(batch)) == [Accepted()]
            assert TOKEN not in repr(sender)


def test_a_receiver_that_ends_does_not_wait_for_streams_and_another_one_is_found() -> None:
    shelf, batch = Shelf(), drawn_batch(Signal.LOGS, 1, rows=3)
    with served(shelf) as server:
        address = server.address
        options = OtlpOptions(endpoint=Endpoint.parse(address, port=4317))
        sender = OtapGrpcExporter(options, lambda batch: [batch])
        assert sender.export(out(batch)) == [Accepted()]
    assert isinstance(sender.export(out(batch))[0], Retry)
    with served(shelf, address=address):
        grpc.channel_ready_future(sender._channel).result(PATIENCE)
        assert sender.export(out(batch, attempt=2)) == [Accepted()]
    sender.close()


class Peer(grpc.GenericRpcHandler):
    """A receiver by hand, which answers as ``answer`` says."""

    def __init__(self, answer) -> None:
        self.answer = answer

    def service(self, details):
        return grpc.stream_stream_rpc_method_handler(self.answer)


@contextmanager
def peer(answer):
    server = grpc.server(ThreadPoolExecutor(4), handlers=[Peer(answer)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(0).wait()


def ok(request: bytes) -> bytes:
    return encode_status(BatchStatus(decode_records(request).batch_id, 0))


def test_answers_may_come_in_any_order_and_of_batches_that_nobody_sent() -> None:
    def backwards(requests, _context):
        found = [next(requests) for _ in range(3)]
        yield encode_status(BatchStatus(99, 3, "who?"))
        yield from map(ok, reversed(found))

    batches = [drawn_batch(Signal.LOGS, seed, rows=2) for seed in range(3)]
    with peer(backwards) as address, exporter(address) as sender:
        assert list(sender.export(out(*batches))) == [Accepted()] * 3


def test_a_stream_that_ends_early_is_opened_again() -> None:
    opened = []

    def one_only(requests, context):
        opened.append(1)
        yield ok(next(requests))
        if len(opened) == 1:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no more of this")

    batches = [drawn_batch(Signal.LOGS, seed, rows=2) for seed in range(2)]
    with peer(one_only) as address, exporter(address) as sender:
        first, second = sender.export(out(*batches))
        assert first == Accepted()
        assert second == Retry("INVALID_ARGUMENT: no more of this")
        assert sender.export(out(batches[1], attempt=2)) == [Accepted()]
    assert len(opened) == 2


def test_the_end_of_a_stream_refuses_only_a_batch_that_was_alone_on_it() -> None:
    def never(requests, context):
        next(requests)
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "never")

    batch = drawn_batch(Signal.LOGS, 1, rows=2)
    with peer(never) as address, exporter(address) as sender:
        assert sender.export(out(batch)) == [Retry("INVALID_ARGUMENT: never")]
        assert sender.export(out(batch, attempt=2)) == [Refused("INVALID_ARGUMENT: never")]


@pytest.mark.parametrize("code", [0, 1, 4, 7, 8, 10, 14, 16, 99, 3, 13])
def test_each_code_is_about_the_batch_or_is_not(code: int) -> None:
    def answer(requests, _context):
        yield encode_status(BatchStatus(decode_records(next(requests)).batch_id, code))

    with peer(answer) as address, exporter(address) as sender:
        (outcome,) = sender.export(out(drawn_batch(Signal.LOGS, 1, rows=2)))
    assert isinstance(outcome, {0: Accepted, 3: Refused, 13: Refused}.get(code, Retry))


def test_silence_ends_the_stream_and_garbage_too() -> None:
    def silent(requests, _context):
        yield from ()
        list(requests)

    def garbled(requests, _context):
        next(requests)
        yield b"\xff"

    batch = drawn_batch(Signal.LOGS, 1, rows=2)
    with peer(silent) as address, exporter(address, timeout=SECOND // 5) as sender:
        assert sender.export(out(batch)) == [Retry("no answer in time")]
    with peer(garbled) as address, exporter(address) as sender:
        (outcome,) = sender.export(out(batch))
        assert isinstance(outcome, Retry)
        assert "cannot be read" in outcome.reason
