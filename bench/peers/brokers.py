"""Servers with streams: Redis over a socket in the folder, NATS over the loopback."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from bench.peers.peer import BATCH, Bundle, Peer, decode
from bench.peers.servers import Server, free_port, program

__all__ = ["NatsStream", "RedisAlways", "RedisEverySecond"]

_KEY = "bundles"
_READ = 16


def _told(name: str) -> str:
    place = program(name)
    assert place is not None
    words = subprocess.run([place, "--version"], capture_output=True, text=True, check=True)
    return (words.stdout + words.stderr).strip()


class RedisAlways(Peer):
    name = "redis-always"
    packages = ("redis",)
    program = "redis-server"
    settings = (
        f"a stream, `appendfsync always`, no snapshots, a unix socket; for the 25 ms {BATCH} "
        "requests as one transaction, which it syncs once"
    )
    appendfsync = "always"

    @classmethod
    def version(cls) -> str:
        return _told("redis-server").split("v=")[1].split()[0]

    @classmethod
    def serve(cls, folder: Path) -> Server:
        import redis

        place, base = folder / "socket", folder / "base"
        base.mkdir(exist_ok=True)
        place.unlink(missing_ok=True)
        options = {
            "port": "0",
            "unixsocket": str(place),
            "unixsocketperm": "700",
            "dir": str(base),
            "save": "",
            "appendonly": "yes",
            "appendfsync": cls.appendfsync,
            "auto-aof-rewrite-percentage": "0",
        }
        words = [word for name, value in options.items() for word in (f"--{name}", value)]

        def answers() -> bool:
            try:
                with redis.Redis(unix_socket_path=str(place)) as client:
                    return bool(client.ping())
            except redis.ConnectionError:  # Also while it reads what it has.
                return False

        path = program("redis-server")
        assert path is not None
        return Server([path, *words], answers, log=folder / "log")

    def open(self) -> None:
        import redis

        self._client = redis.Redis(unix_socket_path=str(self.folder / "socket"))
        self._pipe = self._client.pipeline(transaction=True)

    def append(self, bundle: Bundle) -> None:
        value = bytes(self._encoder.encode(bundle))
        self._appended += 1
        if self.mode == "each":
            self._client.xadd(_KEY, {b"v": value})
            self.acked += 1
            return
        self._pipe.xadd(_KEY, {b"v": value})
        if len(self._pipe) >= BATCH:
            self.commit()

    def commit(self) -> None:
        if len(self._pipe):
            self._pipe.execute()
        super().commit()

    def close(self) -> None:
        self._client.close()

    def read_all(self) -> Iterator[Bundle]:
        begin = "-"
        while found := self._client.xrange(_KEY, min=begin, count=_READ):
            for _, fields in found:
                yield decode(fields[b"v"])
            begin = f"({found[-1][0].decode()}"

    def first(self) -> Bundle:
        ((_, fields),) = self._client.xrange(_KEY, count=1)
        return decode(fields[b"v"])


class RedisEverySecond(RedisAlways):
    name = "redis-everysec"
    survives = "a kill"
    settings = "the same, `appendfsync everysec`"
    appendfsync = "everysec"


class NatsStream(Peer):
    name = "nats"
    packages = ("nats",)
    program = "nats-server"
    survives = "a kill"
    settings = (
        f"JetStream in files, defaults (synced every 2 minutes), loopback, up to {BATCH} requests "
        "on their way; read by a consumer without acks"
    )

    @classmethod
    def version(cls) -> str:
        return _told("nats-server").rsplit("v", 1)[1]

    @classmethod
    def serve(cls, folder: Path) -> Server:
        port = free_port()
        (folder / "port").write_text(str(port))
        conf = folder / "conf"
        conf.write_text(
            f'listen: "127.0.0.1:{port}"\nmax_payload: 8MB\n'
            f'jetstream {{ store_dir: "{folder / "base"}", max_file_store: 8GB }}\n'
        )

        def answers() -> bool:
            # It listens only once it has read what it has.
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=5) as link:
                    return link.recv(4) == b"INFO"
            except OSError:
                return False

        path = program("nats-server")
        assert path is not None
        return Server([path, "-c", str(conf)], answers, log=folder / "log")

    def open(self) -> None:
        import nats

        self._loop = asyncio.new_event_loop()
        port = (self.folder / "port").read_text()
        connecting = nats.connect(f"nats://127.0.0.1:{port}", allow_reconnect=False)
        self._link = self._loop.run_until_complete(connecting)
        self._stream = self._link.jetstream(timeout=60)
        making = self._stream.add_stream(name=_KEY, subjects=[_KEY])
        self._loop.run_until_complete(making)
        self._pending: list[bytes] = []

    def append(self, bundle: Bundle) -> None:
        self._pending.append(bytes(self._encoder.encode(bundle)))
        self._appended += 1
        if self.mode == "each" or len(self._pending) >= BATCH:
            self.commit()

    def commit(self) -> None:
        self._loop.run_until_complete(self._publish())
        super().commit()

    async def _publish(self) -> None:
        values, self._pending = self._pending, []
        await asyncio.gather(*(self._stream.publish(_KEY, value) for value in values))

    def close(self) -> None:
        self._loop.run_until_complete(self._link.close())
        self._loop.close()

    def read_all(self) -> Iterator[Bundle]:
        told = self._loop.run_until_complete(self._stream.stream_info(_KEY))
        getting = self._stream.subscribe(_KEY, ordered_consumer=True)
        consumer = self._loop.run_until_complete(getting)
        for _ in range(told.state.messages):
            message = self._loop.run_until_complete(consumer.next_msg(timeout=60))
            yield decode(message.data)
        self._loop.run_until_complete(consumer.unsubscribe())
