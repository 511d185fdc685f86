"""A queue in memory with a clock that stands still, a store that fails when told, and its users."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from quiver.disk import Bytes
from quiver.errors import QuiverError
from quiver.ship.batch import encode_batch, mint_name
from quiver.ship.consumer import Consumer
from quiver.ship.objects import Found, Listed, MemoryBucket, Tag, root_key
from quiver.ship.producer import Producer
from quiver.ship.queue import Batch, Item, NewEntry, Queue
from quiver.testing import ManualClock

GRACE_MS = 600_000
WAIT = 20.0
"""Seconds for what another thread does; nobody waits that long unless it is broken."""


class FaultyBucket:
    """A bucket with something to be done before and after each act; that may raise."""

    def __init__(self, inner: MemoryBucket) -> None:
        self.inner = inner
        self.before: Callable[[str, str], object] = lambda act, key: None
        self.after: Callable[[str, str], object] = lambda act, key: None
        self.acts: list[tuple[str, str]] = []

    @property
    def place(self) -> str:
        return self.inner.place

    @property
    def base(self) -> str:
        return self.inner.base

    def _do(self, act: str, key: str, run: Callable[[], object]) -> object:
        self.acts.append((act, key))
        self.before(act, key)
        done = run()
        self.after(act, key)
        return done

    def get(self, key: str) -> Found:
        return self._do("get", key, lambda: self.inner.get(key))

    def get_if_changed(self, key: str, tag: Tag) -> Found | None:
        return self._do("get", key, lambda: self.inner.get_if_changed(key, tag))

    def read(self, key: str) -> Bytes:
        return self._do("get", key, lambda: self.inner.read(key))

    def put(self, key: str, data: Bytes | Sequence[Bytes]) -> Tag:
        return self._do("put", key, lambda: self.inner.put(key, data))

    def write(self, key: str, data: Bytes | Sequence[Bytes] | Iterator[Bytes]) -> None:
        self._do("put", key, lambda: self.inner.write(key, data))

    def put_if(self, key: str, data: Bytes, tag: Tag | None, *, within: float | None = None) -> Tag:
        return self._do("put_if", key, lambda: self.inner.put_if(key, data, tag, within=within))

    def list(self, prefix: str) -> Iterator[Listed]:
        return self._do("list", prefix, lambda: self.inner.list(prefix))

    def delete(self, keys: Sequence[str]) -> Sequence[str]:
        return self._do("delete", ",".join(keys), lambda: self.inner.delete(keys))

    def count(self, act: str, key: str = "") -> int:
        return sum(a == act and k.endswith(key) for a, k in self.acts)


class Entropy:
    """Random bytes that repeat with the test: a counter, so that no two are alike."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, count: int) -> bytes:
        self.calls += 1
        return self.calls.to_bytes(count, "big")


class Rig:
    """One queue at ``ingest`` of a store in memory, and whoever uses it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.entropy = Entropy()
        self.bucket = FaultyBucket(MemoryBucket("ingest", clock=self.clock))
        self.users: list[Producer | Consumer] = []

    def queue(self, **options) -> Queue:
        return Queue(self.bucket, clock=self.clock, entropy=self.entropy, **options)

    def producer(self, **options) -> Producer:
        made = Producer(self.queue(), clock=self.clock, entropy=self.entropy, **options)
        self.users.append(made)
        return made

    def consumer(self, last_acked: int | None = None, **options) -> Consumer:
        options = {"sweep_interval": None, **options}
        made = Consumer.open(self.queue(), last_acked, clock=self.clock, **options)
        self.users.append(made)
        return made

    def entries(self) -> list:
        return list(self.queue().read().entries())

    def sequences(self) -> list[int]:
        return [entry.sequence for entry in self.entries()]

    def batches(self) -> list[str]:
        return sorted(each.key for each in self.bucket.list("") if each.key.endswith(".batch"))

    def upload(self, *records: bytes, minted_ms: int | None = None) -> str:
        """Put a batch that nothing names, and give its key."""
        wall_ns = self.clock.wall_ns() if minted_ms is None else minted_ms * 1_000_000
        key = mint_name(wall_ns, self.entropy)
        self.bucket.put(key, encode_batch(list(records or (b"r",))).parts)
        return key

    def append(self, *records: bytes, metadata: bytes = b"", key: str | None = None) -> str:
        """Put a batch and append its entry, as a producer of ours does."""
        key = key or self.upload(*records)
        self.queue().append(self.draft(key, *records, metadata=metadata))
        return key

    def draft(self, key: str, *records: bytes, metadata: bytes = b"") -> NewEntry:
        """Make the entry of a batch that is there."""
        encoded = encode_batch(list(records or (b"r",)))
        item = Item(0, self.now_ms(), metadata)
        batch = Batch(encoded.byte_count, encoded.crc32c)
        return NewEntry(root_key(self.bucket, key), [item], batch)

    def now_ms(self) -> int:
        return self.clock.wall_ns() // 1_000_000

    def close(self) -> None:
        self.bucket.before = self.bucket.after = lambda act, key: None
        for user in self.users:
            user_close(user)


def user_close(user: Producer | Consumer) -> None:
    with contextlib.suppress(QuiverError):  # What the test did to it is the test's affair.
        user.close(WAIT) if isinstance(user, Producer) else user.close()


def records(batch) -> list[bytes]:
    return [bytes(record) for record in batch.records]
