"""What every bucket of the queue has to keep, as tests: inherit them, and say how one is opened.

::

    class TestMine(BucketConformance):
        @pytest.fixture
        def opened(self, tmp_path):
            return lambda path="": MyBucket(tmp_path, path)

``opened`` opens a bucket on a path of one store that is empty at the start of each test; each call
may give another object. A store that passes keeps what the queue relies on, in one process. Race it
from several as well: ``count_up`` may be run anywhere.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, Protocol

from quiver.disk import Bytes
from quiver.errors import InputError, MissingError
from quiver.ship.objects import Bucket, Conflict, own_key, probe, root_key

__all__ = ["BucketConformance", "Opened", "count_up"]

_THREADS: Final = 6
_ROUNDS: Final = 12
_STEPS: Final = 15
_TRIES_MAX: Final = 10_000
_PIECES: Final = (20 << 20) + 1
_LARGE: Final = 12 << 20
_ODD: Final = ("a b", "ä/ö", "a%2Fb", "a+b", "a#b?c", "~x", "日本", "..x", "x'\"")
_NO_KEYS: Final = ("", "/", "a//b", "a/", "../a", "a/./b", "a/..", "a\0b", "a\nb", "a\\b", "\ud800")


class Opened(Protocol):
    """Opens a bucket on a path of the store that the test has."""

    def __call__(self, path: str = "") -> Bucket:
        """Open it."""
        ...


def count_up(bucket: Bucket, key: str, steps: int) -> int:
    """Add one to the number in an object so many times, against all who do so; gives conflicts."""
    conflicts = 0
    for _ in range(steps):
        for _ in range(_TRIES_MAX):
            found = bucket.get(key)
            try:
                bucket.put_if(key, b"%d" % (int(bytes(found.data)) + 1), found.tag)
            except Conflict:
                conflicts += 1
            else:
                break
        else:
            raise AssertionError(f"{_TRIES_MAX:,} conflicts for one step")
    return conflicts


def _check(holds: object, what: str) -> None:
    """Fail a test, also where asserts are left out."""
    if not holds:
        raise AssertionError(what)


def _refused(kind: type[Exception], act: Callable[[], object], what: str) -> None:
    try:
        act()
    except kind:
        return
    raise AssertionError(f"{what}: no {kind.__name__}")


def _together(count: int, act: Callable[[int], Any]) -> list[Any]:
    """Let threads do something at once; gives what each gave."""
    barrier = threading.Barrier(count)

    def run(number: int) -> object:
        barrier.wait(timeout=60)
        return act(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


class BucketConformance:
    """Tests of one kind of bucket; ``opened`` is a fixture."""

    many = 1100
    """More objects than a store lists, or deletes, at once."""

    def test_what_is_put_is_read_whole(self, opened: Opened) -> None:
        bucket = opened()
        for size in (0, 1, 100_000, _PIECES):
            data = bytes(range(256)) * (size // 256) + bytes(size % 256)
            tag = bucket.put("a/b.batch", data)
            found = opened().get("a/b.batch")
            _check(bytes(found.data) == data, f"{size:,} bytes came back otherwise")
            _check(found.tag == tag, f"{size:,} bytes: a put and a read give two tags")

    def test_what_needs_no_tag_is_the_same_object(self, opened: Opened) -> None:
        bucket = opened("q")
        for size in (0, 1, 100_000, _PIECES):
            data = bytes(range(256)) * (size // 256) + bytes(size % 256)
            bucket.write("a/b.batch", data)
            _check(bytes(bucket.get("a/b.batch").data) == data, f"{size:,} bytes were written")
            _check(bytes(opened("q").read("a/b.batch")) == data, f"{size:,} bytes were read")
        bucket.write("parts", [b"a", memoryview(b"xbx")[1:2], b""])
        _check(bytes(bucket.read("parts")) == b"ab", "parts")
        tag = bucket.get("parts").tag
        bucket.write("parts", b"c")
        _refused(Conflict, lambda: bucket.put_if("parts", b"d", tag), "a tag from before a write")
        _refused(MissingError, lambda: bucket.read("gone"), "gone")
        _refused(MissingError, lambda: opened("nowhere/r").read("gone"), "nowhere")

    def test_what_was_read_stays_as_it_is(self, opened: Opened) -> None:
        bucket = opened()
        bucket.write("x", b"before" * 9000)
        for change in (
            lambda: bucket.write("x", b"behind" * 9000),
            lambda: bucket.delete(["x"]),
        ):
            was = bytes(bucket.get("x").data)
            data = bucket.read("x")
            change()
            _check(bytes(data) == was, "what was read changed with the object")

    def test_parts_are_joined(self, opened: Opened) -> None:
        import pyarrow as pa

        bucket = opened()
        parts: list[Bytes] = [b"ab", bytearray(b""), memoryview(b"xcdx")[1:3], pa.py_buffer(b"ef")]
        bucket.put("x", parts)
        _check(bytes(bucket.get("x").data) == b"abcdef", "parts")
        bucket.put("x", [])
        _check(not memoryview(bucket.get("x").data), "no parts")
        whole = b"0123456789abcdef" * 4096
        bucket.put("x", [whole] * ((_PIECES >> 16) + 1))
        _check(len(memoryview(bucket.get("x").data)) > _PIECES, "many parts")
        for data in (b"1", bytearray(b"1"), memoryview(b"213")[1:2], pa.py_buffer(b"1")):
            tag = bucket.put("y", data)
            _check(bytes(bucket.get("y").data) == b"1", str(type(data)))
            bucket.put_if("y", data, tag)

    def test_a_put_replaces_what_was_there_and_its_tag(self, opened: Opened) -> None:
        bucket = opened()
        tags = [bucket.put("x", b"%d" % number) for number in range(20)]
        _check(len(set(tags)) == len(tags), "two states have one tag")
        _check(bytes(bucket.get("x").data) == b"19", "an old object was read")

    def test_what_is_not_there_is_missing(self, opened: Opened) -> None:
        bucket = opened("q")
        tag = bucket.put("here", b"1")
        for key in ("gone", "here2", "folder/gone"):
            _refused(MissingError, partial(bucket.get, key), key)
            _refused(MissingError, partial(bucket.get_if_changed, key, tag), key)

    def test_an_object_that_did_not_change_is_not_read(self, opened: Opened) -> None:
        bucket = opened()
        first = bucket.put("x", b"1")
        _check(bucket.get_if_changed("x", first) is None, "it did not change")
        second = bucket.put("x", b"2")
        found = bucket.get_if_changed("x", first)
        _check(found is not None, "it changed")
        _check(found and (bytes(found.data), found.tag) == (b"2", second), "another object")

    def test_create_does_not_replace(self, opened: Opened) -> None:
        bucket = opened()
        tag = bucket.put_if("x", b"1", None)
        _refused(Conflict, lambda: opened().put_if("x", b"2", None), "created twice")
        found = bucket.get("x")
        _check((bytes(found.data), found.tag) == (b"1", tag), "a refused put changed the object")

    def test_replace_takes_the_last_tag_alone(self, opened: Opened) -> None:
        bucket = opened()
        tags = [bucket.put_if("x", b"0", None)]
        for number in range(1, 3):
            tags.append(bucket.put_if("x", b"%d" % number, tags[-1]))
        last = tags.pop()
        for tag in tags:
            _refused(Conflict, partial(bucket.put_if, "x", b"9", tag), "stale")
        _check(bytes(bucket.get("x").data) != b"9", "a refused put changed the object")
        bucket.put_if("x", b"3", last)
        _refused(Conflict, lambda: bucket.put_if("x", b"4", last), "a tag taken twice")

    def test_replace_does_not_create(self, opened: Opened) -> None:
        bucket = opened()
        tag = bucket.put("x", b"1")
        bucket.delete(["x"])
        for key in ("x", "y"):
            _refused(Conflict, partial(bucket.put_if, key, b"2", tag), key)
        _check(not list(bucket.list("")), "a refused put made an object")

    def test_a_condition_holds_for_large_objects(self, opened: Opened) -> None:
        bucket = opened()
        data = bytes(_LARGE)
        tag = bucket.put_if("x", data, None)
        _refused(Conflict, lambda: bucket.put_if("x", data, None), "created twice")
        newer = bucket.put_if("x", b"1" + data, tag)
        _refused(Conflict, lambda: bucket.put_if("x", data, tag), "replaced by an old tag")
        _check(bucket.get("x").tag == newer, "tag")

    def test_a_listing_has_what_begins_so(self, opened: Opened) -> None:
        bucket = opened("q")
        opened("q2").put("a", b"elsewhere")
        sizes = {"a/1": 1, "a/2/3": 2, "ab": 3, "b": 0, "a/2/4/5": 7}
        for key, size in sizes.items():
            bucket.put(key, bytes(size))
        for prefix in ("", "a", "a/", "a/2", "a/2/", "a/2/3", "b", "c", "a/9/"):
            seen = list(bucket.list(prefix))
            wanted = {key: size for key, size in sizes.items() if key.startswith(prefix)}
            _check({one.key: one.size for one in seen} == wanted, f"prefix {prefix!r}")
            _check(len(seen) == len(wanted), f"prefix {prefix!r}: an object came twice")
            _check(all(one.changed_ms > 0 for one in seen), f"prefix {prefix!r}: no time")

    def test_a_listing_is_whole_when_it_is_long(self, opened: Opened) -> None:
        bucket = opened("q")
        keys = {f"{number:04}.batch" for number in range(self.many)}
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(lambda key: bucket.put(key, b"1"), keys))
        _check({one.key for one in bucket.list("")} == keys, "list")
        _check(not bucket.delete(sorted(keys)), "delete")
        _check(not list(bucket.list("")), "something is left")

    def test_what_is_deleted_is_gone(self, opened: Opened) -> None:
        bucket = opened()
        for key in ("a", "b/c", "d"):
            bucket.put(key, b"1")
        _check(not bucket.delete([]), "nothing to delete")
        _check(not bucket.delete(["a", "gone", "b/c", "b/gone"]), "all of it can be deleted")
        _check([one.key for one in bucket.list("")] == ["d"], "listed")
        _refused(MissingError, lambda: bucket.get("a"), "read")
        bucket.put_if("a", b"2", None)
        _check(bytes(bucket.get("a").data) == b"2", "made again")

    def test_odd_keys_are_kept_as_they_are(self, opened: Opened) -> None:
        bucket = opened("q")
        for key in _ODD:
            bucket.put(key, key.encode())
        _check({one.key for one in bucket.list("")} == set(_ODD), "listed")
        for key in _ODD:
            _check(bytes(bucket.get(key).data) == key.encode(), key)
        _check(not bucket.delete(list(_ODD)), "deleted")
        _check(not list(bucket.list("")), "something is left")

    def test_what_is_no_key_is_refused(self, opened: Opened) -> None:
        bucket = opened("q")
        for key in (*_NO_KEYS, "x" * 1100):
            _refused(InputError, partial(bucket.get, key), repr(key))
            _refused(InputError, partial(bucket.read, key), repr(key))
            _refused(InputError, partial(bucket.put, key, b""), repr(key))
            _refused(InputError, partial(bucket.write, key, b""), repr(key))
            _refused(InputError, partial(bucket.put_if, key, b"", None), repr(key))
            _refused(InputError, partial(bucket.delete, [key]), repr(key))
        _check(not list(bucket.list("")), "something was put")

    def test_two_buckets_of_one_store_name_an_object_alike(self, opened: Opened) -> None:
        whole, below = opened(), opened("q/r")
        below.put("manifest", b"m")
        whole.put("elsewhere/x", b"x")
        name = root_key(below, "manifest")
        _check(bytes(whole.get(own_key(whole, name)).data) == b"m", "from above")
        _check(own_key(below, name) == "manifest", "its own")
        other = own_key(below, root_key(whole, "elsewhere/x"))
        _check(bytes(below.get(other).data) == b"x", "from below")

    def test_one_of_many_creates(self, opened: Opened) -> None:
        for number in range(_ROUNDS):
            key = f"x{number}"

            def create(thread: int, key: str = key) -> bytes | None:
                try:
                    opened().put_if(key, b"%d" % thread, None)
                except Conflict:
                    return None
                return b"%d" % thread

            winners = [won for won in _together(_THREADS, create) if won is not None]
            _check(len(winners) == 1, f"{len(winners)} have created one object")
            _check(bytes(opened().get(key).data) == winners[0], "the object is not the winner's")

    def test_no_step_is_lost_in_a_race(self, opened: Opened) -> None:
        opened().put_if("count", b"0", None)
        _together(_THREADS, lambda _: count_up(opened(), "count", _STEPS))
        count = int(bytes(opened().get("count").data))
        _check(count == _THREADS * _STEPS, f"{_THREADS * _STEPS} steps were taken, {count} kept")

    def test_the_probe_takes_it_and_leaves_nothing(self, opened: Opened) -> None:
        bucket = opened("q")
        probe(bucket, known=False)
        _check(not list(bucket.list("")), "the probe left something")
