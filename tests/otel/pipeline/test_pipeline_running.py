"""A pipeline that runs, with sinks and senders of the test: every way from in to out."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from pipeline_kit import FakeParts, Sink, opened, pipeline_of
from store_kit import abandon

import quiver
from quiver.errors import CapacityError, InputError, LockedError
from quiver.otel.nodes import Accepted, Refused, Retry
from quiver.otel.pipeline import load_pipeline
from quiver.otel.pipeline.running import _LAST_WAIT, Pipeline, Share, _Running
from quiver.units import SECOND


@pytest.fixture
def run(tmp_path):
    """Run a way as ``pipeline_kit.pipeline_of`` has it."""

    @contextmanager
    def running(way: str, *, parts: FakeParts | None = None, share: Share | None = None, **how):
        parts = parts or FakeParts()
        pipeline = opened(pipeline_of(tmp_path, way, **how), parts, share=share)
        try:
            yield parts, pipeline
        finally:
            pipeline.stop()

    return running


@pytest.mark.parametrize(
    "way, arrow, stored",
    [
        ("in > keep > a, b", False, {True}),
        ("in > keep > drop > a, b", True, {False}),  # Option A: processed behind the store.
        ("in > drop > keep > a, b", True, {False}),  # Option B: processed before it.
        ("in > drop > a, b", True, {False}),  # None.
    ],
)
def test_everything_comes_to_every_exporter(run, way, arrow, stored) -> None:
    with run(way) as (parts, pipeline):
        assert parts.arrow == {"in": arrow}
        parts.send("one", "xtwo", "three")
        parts.send("four")
        left = ["one", "three", "four"] + ([] if "drop" in way else ["xtwo"])
        for name in "ab":
            parts.sinks[name].wait_for(*left)
            assert parts.sinks[name].kinds == stored
        assert pipeline.not_ready() == ""
        drop = [node for node in pipeline.status() if node.kind == "filter"]
        if drop:
            taken = 4 if "keep > drop" not in way else 8  # Once for each exporter behind a store.
            assert drop[0].counts["quiver.processor.items"] == taken
    assert [sink.closed for sink in parts.sinks.values()] == [1, 1]
    assert pipeline.not_ready() == "it is about to end"


def test_exporters_that_need_arrow_get_it(run) -> None:
    with run("in > keep > a", exporters="parquet") as (parts, _):
        parts.send("one")
        parts.sinks["a"].wait_for("one")
        assert parts.sinks["a"].kinds == {False}


@pytest.mark.parametrize("handling", ["pass_through", "convert_to_arrow"])
def test_a_file_may_say_how_otlp_is_kept(run, handling) -> None:
    with run("in > keep > a", store=f"otlp_handling: {handling}") as (parts, _):
        parts.send("one")
        parts.sinks["a"].wait_for("one")
        assert parts.sinks["a"].kinds == {handling == "pass_through"}


def test_requests_kept_as_they_came_are_processed_on_their_way_out(run) -> None:
    way = {"way": "in > keep > drop > a", "store": "otlp_handling: pass_through"}
    with run(**way) as (parts, _):
        assert parts.arrow == {"in": False}
        parts.send("one", "x")
        parts.send("x")
        parts.sinks["a"].wait_for("one")


def test_each_exporter_goes_at_its_own_pace(run, tmp_path) -> None:
    parts = FakeParts(a=Sink(is_down=True))
    with run("in > keep > a, b", parts=parts) as (parts, pipeline):
        parts.send("one")
        parts.sinks["b"].wait_for("one")
        parts.sinks["a"].wait_for_try()
        assert parts.sinks["a"].got == []
        assert pipeline.stop(0.0) >= 1
    again = FakeParts()
    with run("in > keep > a, b", parts=again):
        again.sinks["a"].wait_for("one")
        again.send("two")
        again.sinks["a"].wait_for("one", "two")
        again.sinks["b"].wait_for("two")
    with quiver.open(tmp_path / "data") as store:
        assert [(lag.subscriber, lag.bundle_count) for lag in store.lags()] == [("a", 0), ("b", 0)]


def test_what_was_acknowledged_is_delivered_after_a_kill(run) -> None:
    parts = FakeParts(a=Sink(is_down=True), b=Sink(is_down=True))
    with run("in > keep > a, b", parts=parts) as (_, pipeline):
        for number in range(20):
            parts.send(f"n{number}")
        abandon(pipeline.stores["keep"][0])
        with run("in > keep > a, b") as (again, _):
            for name in "ab":
                again.sinks[name].wait_for(*(f"n{number}" for number in range(20)))
        pipeline.stop(0.0)


def test_a_stop_delivers_what_there_is(run) -> None:
    parts = FakeParts(a=Sink(answer=lambda each: Accepted() if each.place else Retry("later")))
    with run("in > keep > a", parts=parts) as (_, pipeline):
        for number in range(5):
            parts.send(f"n{number}")
        assert pipeline.stop() == 0
        assert sorted(parts.sinks["a"].got) == [f"n{number}" for number in range(5)]
        assert parts.closed == [5.0]


class Stuck:
    """Stands for a clock, and for a thread that never ends: to join it takes all the time."""

    ident = 1
    now_ns = 0

    def monotonic_ns(self) -> int:
        return self.now_ns

    def join(self, seconds: float) -> None:
        self.now_ns += int(seconds * SECOND)

    def is_alive(self) -> bool:
        return True

    def stop(self, _: float) -> None: ...


def test_all_deliveries_that_hang_are_given_the_same_time_to_end_in(tmp_path) -> None:
    stuck = Stuck()
    plan = load_pipeline(pipeline_of(tmp_path, "in > keep > a, b"))
    pipeline = Pipeline(plan, FakeParts(), clock=stuck)
    pipeline._deliveries = [_Running(plan.nodes["a"], stuck, stuck)] * 9
    assert pipeline._end_deliveries(5 * SECOND) == 9
    assert stuck.now_ns == 5 * SECOND + int(_LAST_WAIT * SECOND)


def test_a_full_store_says_so(run) -> None:
    cap = "retention.size_cap: 7MiB, wait_for_room: 1ms"
    parts = FakeParts(a=Sink(is_down=True))
    with run("in > keep > a", parts=parts, store=cap) as (_, pipeline):
        sent = []
        with pytest.raises(CapacityError):
            for number in range(200):
                parts.send(f"{number}{'y' * 100_000}")
                sent.append(f"{number}{'y' * 100_000}")
        assert 10 < len(sent) < 100
        assert pipeline.failure is None
        parts.sinks["a"].is_down = False
        parts.sinks["a"].wait_for(*sent)


def test_receivers_share_a_store_and_one_may_send_to_two(run) -> None:
    with run("in > keep > a; in > b") as (parts, _):
        parts.send("one")
        assert parts.sinks["b"].got == ["one"]
        parts.sinks["a"].wait_for("one")


def test_broadcast_without_a_store_succeeds_when_all_have_it(run) -> None:
    with run("in > a, b") as (parts, pipeline):
        parts.send("one")
        assert (parts.sinks["a"].got, parts.sinks["b"].got) == (["one"], ["one"])
        parts.sinks["a"].is_down = True
        with pytest.raises(CapacityError):
            parts.send("two")
        assert parts.sinks["b"].got == ["one", "two"]
        parts.sinks["a"].is_down = False
        parts.sinks["b"].answer = lambda _: Refused("never")
        with pytest.raises(InputError):
            parts.send("three")
        parts.sinks["a"].is_down = True
        with pytest.raises(CapacityError):  # It may still come to the one that is down.
            parts.send("four")
        counts = {node.name: node.counts for node in pipeline.status()}
        assert counts["a"]["quiver.exporter.sent_items[logs]"] == 2


def test_round_robin_without_a_store_succeeds_when_one_has_it(run) -> None:
    with run("in > a, b, c", strategy="round_robin") as (parts, _):
        for number in range(6):
            parts.send(str(number))
        assert [sink.got for sink in parts.sinks.values()] == [["0", "3"], ["1", "4"], ["2", "5"]]
        parts.sinks["a"].is_down = True
        parts.send("6")
        assert parts.sinks["b"].got[-1] == "6"
        parts.sinks["b"].is_down = parts.sinks["c"].is_down = True
        with pytest.raises(CapacityError):
            parts.send("7")


def test_what_an_exporter_that_is_gone_was_owed_is_told(run, tmp_path) -> None:
    with run("in > keep > a, b", parts=FakeParts(b=Sink(is_down=True))) as (parts, pipeline):
        assert pipeline.leftovers == ()
        parts.send("one")
        pipeline.stop(0.0)
    with run("in > keep > a") as (_, pipeline):
        (left,) = pipeline.leftovers
        assert (left.store, left.name, left.bundle_count) == ("keep", "b", 1)
        assert left.path == str(tmp_path / "data")


def test_a_start_that_fails_lets_go_of_everything(run, tmp_path) -> None:
    class Deaf(FakeParts):
        def listen(self, *args, **how):
            raise InputError("cannot listen")

    with pytest.raises(InputError, match="cannot listen"), run("in > keep > a", parts=Deaf()):
        pass
    with quiver.open(tmp_path / "data", core=0):
        pass


def test_another_process_that_has_the_store_is_an_error(run, tmp_path) -> None:
    with run("in > keep > a"), pytest.raises(LockedError), run("in > keep > b"):
        pass


def test_processes_share_a_store_by_cores_and_take_over_what_fewer_leave(run, tmp_path) -> None:
    down = {"a": Sink(is_down=True)}
    for number in range(3):
        share = Share(number, 3)
        with run("in > keep > a", parts=FakeParts(**down), share=share) as (parts, pipeline):
            parts.send(f"n{number}")
            pipeline.stop(0.0)
    assert sorted(path.name for path in (tmp_path / "data").glob("core_*")) == [
        f"core_{number}" for number in range(3)
    ]
    with run("in > keep > a", share=Share(0, 2)) as (parts, pipeline):
        assert [store.core for store in pipeline.stores["keep"]] == [0, 2]
        parts.sinks["a"].wait_for("n0", "n2")
        with run("in > keep > a", share=Share(1, 2)) as (others, _):
            others.sinks["a"].wait_for("n1")


def test_a_core_that_somebody_else_writes_is_passed_over_and_told(run, tmp_path) -> None:
    with run("in > keep > a", share=Share(1, 2)), run("in > keep > a") as (parts, pipeline):
        assert [store.core for store in pipeline.stores["keep"]] == [0]
        assert len(pipeline.passed_over) == 1
        parts.send("one")
        parts.sinks["a"].wait_for("one")


def test_an_exporter_that_ends_by_itself_is_a_failure(run) -> None:
    with run("in > keep > a") as (_, pipeline):
        running = pipeline._deliveries[0]
        running.delivery.stop(0.0)
        running.thread.join(30)
        assert "a has ended by itself" in str(pipeline.failure)


def test_a_store_that_stops_is_a_failure(run) -> None:
    with run("in > keep > a") as (_, pipeline):
        store = pipeline.stores["keep"][0]
        assert pipeline.failure is None
        store.close()
        assert pipeline.failure is not None
        assert pipeline.not_ready() == "a store has stopped"
