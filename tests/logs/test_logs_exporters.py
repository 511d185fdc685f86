"""What exporters of telemetry tell: rarely, and nothing of what they send."""

from __future__ import annotations

from delivery_kit import OK, ScriptedExporter, rig

from quiver.errors import CapacityError, PoisonedError, StorageError
from quiver.otel.nodes import Accepted, Refused, Retry


def of_node(heard) -> list[tuple[str, str, dict[str, object]]]:
    found = [each for each in heard.records if each[1].startswith("exporter.")]
    assert all(fields.pop("node") == "out" for _, _, fields in found)
    return found


def test_a_failure_is_told_once_with_its_reason_and_that_it_is_over(heard) -> None:
    with rig(ScriptedExporter(lambda _: Retry("UNAVAILABLE: down"))) as r:
        r.put(*"abc")
        r.pass_time(5, 10)
        r.exporter.answer = lambda _: OK
        r.pass_time(5, 10)
    assert of_node(heard) == [
        ("warning", "exporter.failed", {"error": "UNAVAILABLE: down"}),
        ("info", "exporter.resumed", {}),
    ]


def test_refusals_and_rejected_items_are_told_once_without_what_they_quote(heard) -> None:
    answers = [Refused("status 400: secret"), Accepted(1, "secret")] * 2
    with rig(ScriptedExporter(lambda _: answers.pop(0))) as r:
        r.put(*"abcd")
        r.steps()
    assert of_node(heard) == [
        ("warning", "exporter.batch_refused", {"answer": "status 400"}),
        ("warning", "exporter.items_rejected", {"signal": "logs"}),
    ]


def test_outcomes_that_cannot_be_written_are_told(heard, monkeypatch) -> None:
    with rig(ScriptedExporter()) as r:
        r.put("a")
        full = [CapacityError("full")]
        append = r.store._core.outlet.append

        def refusing(records: object) -> None:
            if full:
                raise full.pop()
            append(records)

        monkeypatch.setattr(r.store._core.outlet, "append", refusing)
        r.pass_time(2, 3)
        assert r.left() == 0
    assert of_node(heard) == [("warning", "exporter.outcome_unwritten", {"error": "full"})]


def test_a_bundle_that_cannot_be_read_is_told(heard, monkeypatch) -> None:
    with rig(ScriptedExporter()) as r:

        def refused(*_: object) -> None:
            raise StorageError("cannot read")

        monkeypatch.setattr(r.delivery._subscription, "look", refused)
        r.pass_time(2, 3)
    expected = {"error": "cannot read"}
    assert of_node(heard) == [("warning", "exporter.bundle_unread", expected)]


def test_an_end_that_nobody_asked_for_is_told(heard, monkeypatch) -> None:
    with rig(ScriptedExporter()) as r:
        r.append("a")

        def poisoned(*_: object) -> None:
            raise PoisonedError("a sync failed")

        monkeypatch.setattr(r.delivery._subscription, "look", poisoned)
        r.delivery.run()
        assert isinstance(r.delivery.failure, PoisonedError)
    assert of_node(heard) == [("error", "exporter.ended", {"error": "a sync failed"})]
