"""What ``check`` says of checkpoints that cannot be, and of inboxes that nobody can believe."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import quiver
from quiver.acks.copies import encode_copies, read_copies


def damage(run, store) -> list[str]:
    found = run("check", store, "--json").lines
    return [line["message"] for line in found if line["kind"] == "damage"]


def checkpointed(path) -> None:
    with quiver.open(path, worker=False, config={"acks": {"max_size": 128}}) as store:
        subscription = store.subscribe("reader")
        for _ in range(3):
            handle = subscription.poll()
            if handle is not None:
                handle.ack()
        store.maintain()


def rewrite(path, change) -> None:
    place = path / "core_0/acks/checkpoint"
    checkpoint, _ = read_copies(place.read_bytes())
    state = change(checkpoint.subscribers[0])
    place.write_bytes(encode_copies(replace(checkpoint, subscribers=(state,))))


def test_marks_beyond_all_segments_are_damage(run, store) -> None:
    checkpointed(store)
    rewrite(store, lambda state: replace(state, floor_segment_seq=999, segments=()))
    assert any("has finished segments that never were" in text for text in damage(run, store))


def test_an_inbox_that_the_store_would_refuse_is_damage(run, store) -> None:
    with quiver.subscribe(store, "beside", worker=False):
        pass
    assert damage(run, store) == []
    place = store / "core_0/acks/inbox/beside"
    data = bytearray(place.read_bytes())
    data[40] ^= 1
    place.write_bytes(data)
    assert len(damage(run, store)) == 1


def test_dead_letters_are_no_strangers(run, store) -> None:
    with quiver.open(store, worker=False) as opened:
        opened.subscribe("reader").poll().reject("never")
    *found, _ = run("check", store, "--json").lines
    assert found == []


def test_events_of_the_log_are_for_who_sets_logging_up_and_on_no_screen(store) -> None:
    with quiver.subscribe(store, "beside", worker=False):
        pass
    (store / "core_0/acks/inbox/beside").write_bytes(b"garbage")
    program = "import sys\nfrom quiver.cli.main import main\nsys.exit(main(sys.argv[1:]))\n"
    command = [sys.executable, "-c", program, "gc", str(store)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "the inbox is short" in result.stderr
    assert "inbox_refused" not in result.stderr
