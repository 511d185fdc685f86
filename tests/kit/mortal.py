"""A subscriber in a process of its own that is killed sooner or later; for a forkserver to run."""

from __future__ import annotations

from multiprocessing.connection import Connection

import quiver


def consume(path: str, ear: Connection, *, step: int, keeps: bool) -> None:
    """Take and ack for ever; tell each bundle before it is acked, and all that is safe."""
    with quiver.subscribe(path, "reader", worker=keeps, commit_interval="1ms") as consumer:
        acked: list[int] = []
        while True:
            if keeps:
                run = consumer.next_run(step, timeout="20ms")
            else:
                consumer.refresh()
                run = consumer.poll_run(step)
            if run is not None:
                with run:
                    numbers = [each["events"].column("n")[0].as_py() for each in run]
                    for number in numbers:
                        ear.send_bytes(b"got %d" % number)
                    if numbers[0] % 7 == 6 and run.attempt == 1:
                        run.nack(0)
                        continue
                acked += numbers
            if len(acked) > 2 * step or run is None:
                consumer.commit()
                for number in acked:
                    ear.send_bytes(b"safe %d" % number)
                acked.clear()
                ear.send_bytes(b"turn 0")
