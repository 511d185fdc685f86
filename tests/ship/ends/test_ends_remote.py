"""Producers and consumers at a real S3 server, with answers that are lost (scenarios 59 and 60)."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import pytest
from ends_kit import WAIT, records
from fault_proxy import Fault, FaultProxy
from seaweed import options_for

from quiver.clock import SystemClock
from quiver.errors import RemoteError
from quiver.ship.consumer import Consumer
from quiver.ship.objects import open_bucket
from quiver.ship.producer import Producer
from quiver.ship.queue import Queue

LOST = Fault()
REFUSED = Fault(reaches=False, status=412)


class Impatient(SystemClock):
    """Waits for nothing between two tries."""

    def pause(self, seconds: float) -> None:
        pass


@pytest.fixture
def proxy(seaweed):
    with FaultProxy(seaweed.port) as proxy:
        proxy.matches = lambda seen: seen.method == "PUT" and seen.path.endswith("/manifest")
        yield proxy


@pytest.fixture
def queue(proxy, queue_url) -> Queue:
    bucket = open_bucket(queue_url, options=options_for(proxy.endpoint))
    return Queue(bucket, clock=Impatient())


def test_59_an_append_whose_answer_the_network_lost_is_in_once(proxy, queue) -> None:
    proxy.script.extend([LOST, Fault(status=500), LOST])
    with Producer(queue, flush_interval="1h") as producer:
        handles = []
        for number in range(3):
            handles.append(producer.produce([b"%d" % number]))
            producer.flush(WAIT)
    assert [handle.sequence for handle in handles] == [0, 1, 2]
    assert not proxy.script
    consumer = Consumer.open(queue, sweep_interval=None)
    assert [records(consumer.next_batch()) for _ in range(3)] == [[b"0"], [b"1"], [b"2"]]
    assert consumer.next_batch() is None
    consumer.ack_through(2)


def test_60_a_server_that_says_412_for_ever_is_given_up(proxy, queue) -> None:
    proxy.for_ever = REFUSED
    with Producer(queue, flush_interval="1h") as producer:
        handle = producer.produce([b"x"])
        with pytest.raises(RemoteError):
            producer.flush(WAIT)
        assert handle.error is not None
        assert proxy.count("PUT") < 100
        proxy.for_ever = None
        again = producer.produce([b"x"])
        producer.flush(WAIT)
    assert again.sequence == 0


FETCH = """
import pickle, sys
fetcher, descriptors = pickle.load(sys.stdin.buffer)
found = [bytes(record) for each in descriptors for record in fetcher.fetch(each).records]
sys.stdout.buffer.write(pickle.dumps((found, repr(fetcher))))
"""


def test_45_a_fetcher_reads_in_another_process_while_the_owner_acks(seaweed, queue_url) -> None:
    queue = Queue(open_bucket(queue_url, options=seaweed.options))
    with Producer(queue, flush_size=1) as producer:
        for number in range(4):
            producer.produce([b"%d" % number])
    with Consumer.open(queue, sweep_interval=None) as consumer:
        descriptors = consumer.next_descriptors(4)
        given = pickle.dumps((consumer.fetcher(), descriptors))
        done = subprocess.run(
            [sys.executable, "-c", FETCH],
            input=given,
            capture_output=True,
            timeout=100,
            check=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        found, shown = pickle.loads(done.stdout)
        assert found == [b"0", b"1", b"2", b"3"]
        assert seaweed.options["secret_access_key"] not in shown
        consumer.ack_through(descriptors[-1].sequence)
