"""Many processes at one object: nothing is lost, and who is killed leaves the old or the new."""

from __future__ import annotations

import os

import pytest
from bucket_racers import count_in_processes, kill_at_each_act

from quiver.ship.objects import FolderBucket, open_bucket

PROCESSES = 4
STEPS = int(os.environ.get("QUIVER_BUCKET_STEPS", "25"))


def test_no_step_is_lost_between_processes_in_a_folder(tmp_path):
    bucket = FolderBucket(str(tmp_path))
    bucket.put("count", b"0")
    count_in_processes(str(tmp_path), {}, processes=PROCESSES, steps=STEPS)
    assert int(bucket.get("count").data) == PROCESSES * STEPS
    assert [seen.key for seen in bucket.list("")] == ["count"]


def test_no_step_is_lost_between_processes_on_a_server(seaweed, queue_url):
    bucket = open_bucket(queue_url, options=seaweed.options)
    bucket.put("count", b"0")
    count_in_processes(queue_url, seaweed.options, processes=PROCESSES, steps=STEPS)
    assert int(bytes(bucket.get("count").data)) == PROCESSES * STEPS


@pytest.mark.parametrize("act", ["put", "put_if"])
def test_a_writer_killed_anywhere_leaves_the_old_or_the_new_and_no_lock(tmp_path, act):
    lives = kill_at_each_act(tmp_path, act)
    seen = []
    for life in lives:
        bucket = FolderBucket(life["path"])
        found = bucket.get("x")
        seen.append(bytes(found.data))
        assert [one.key for one in bucket.list("")] == ["x"]
        assert seen[-1] == b"new" or not life["done"]
        bucket.put_if("x", b"newer", found.tag)  # The lock is free, whatever lies about.
        assert bytes(bucket.get("x").data) == b"newer"
    assert len(lives) > 6
    assert set(seen) == {b"old", b"new"}
    assert seen == sorted(seen, reverse=True)  # First old, and from some act on new.


def test_an_object_survives_a_kill_of_the_server(seaweed, queue_url):
    bucket = open_bucket(queue_url, options=seaweed.options)
    tag = bucket.put_if("x", b"1", None)
    seaweed.kill()
    seaweed.start()
    found = bucket.get("x")
    assert (bytes(found.data), found.tag) == (b"1", tag)
    bucket.put_if("x", b"2", tag)
