"""The connector ``nats``: its options, and what it makes of them."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from quiver.errors import ConfigError, SourceError
from quiver.source.nats.link import Link
from quiver.source.nats.reader import NatsReader, NatsState
from quiver.source.protocols import Split, States

__all__ = ["NatsConnector", "NatsOptions"]

_GAPS: Final = ("error", "tell")
_INTERNAL: Final = ("KV_", "OBJ_")
_PAGE: Final = 256
_PAGES_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class NatsOptions:
    """Which streams are read, and how.

    Without ``streams`` it is all that there are, those behind key-value and object stores aside.
    Each is one split, or one for each of ``subjects``: these should not overlap, or a message comes
    in several. ``gap`` says what becomes of messages that are gone before they were read:
    ``"error"`` or ``"tell"``. With ``purge`` messages are deleted from the stream once they are
    committed. ``connect`` goes to ``nats.connect``: credentials, TLS and the like.
    """

    servers: tuple[str, ...] = ("nats://127.0.0.1:4222",)
    streams: tuple[str, ...] | None = None
    subjects: tuple[str, ...] = ()
    batch_rows: int = 500
    gap: str = "error"
    purge: bool = False
    connect: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check them; raises ConfigError that names the option."""
        if not self.servers:
            raise ConfigError("servers: none is named", hint="nats://127.0.0.1:4222")
        if self.gap not in _GAPS:
            raise ConfigError(f"gap: {self.gap!r} is unknown", hint=" or ".join(_GAPS))
        if self.batch_rows < 1:
            raise ConfigError(f"batch_rows: {self.batch_rows} is below 1")
        if len(set(self.subjects)) < len(self.subjects):
            raise ConfigError("subjects: one is named twice")


class NatsConnector:
    """Streams of a NATS server, or of a cluster of them. Messages are not acked: see the states."""

    name = "nats"
    drops_splits = False

    def __init__(self, options: NatsOptions | None = None) -> None:
        """Connect to nothing yet."""
        self._options = options or NatsOptions()
        self._telling = threading.Lock()

    def enumerator(self) -> NatsEnumerator:
        """Connect, to list streams."""
        return NatsEnumerator(self._options)

    def reader(self, split: Split, state: str | None, columns: Sequence[str] | None) -> NatsReader:
        """Connect, to read one stream from a state on."""
        options = self._options
        return NatsReader(
            split,
            state,
            columns,
            link=_link(options),
            batch_rows=options.batch_rows,
            gap=options.gap,
        )

    def acknowledge(self, states: States) -> None:
        """Delete what is committed from the streams, if ``purge`` says so; else do nothing."""
        if not self._options.purge or not states:
            return
        with self._telling:
            link = Link(**_link(self._options))
            try:
                manager = link.connection.jsm()
                for name, state in states.items():
                    stream, _, subject = name.partition(":")
                    first_kept = NatsState.decode(state).sequence + 1
                    link.ask(
                        partial(
                            manager.purge_stream, stream, seq=first_kept, subject=subject or None
                        )
                    )
            finally:
                link.close()


class NatsEnumerator:
    """Lists streams as splits; one that was there once is listed for ever."""

    def __init__(self, options: NatsOptions) -> None:
        self._options = options
        self._link: Link | None = Link(**_link(options))
        self._known: dict[str, Split] = {}

    def list_splits(self) -> list[Split]:
        """Ask which streams there are; raises SourceError if one that was named is not."""
        if self._link is None:
            self._link = Link(**_link(self._options))
        try:
            names = self._link.ask(self._names)
        except SourceError:
            self.close()  # The next listing connects anew.
            raise
        wanted = self._options.streams
        before = {split.properties["stream"] for split in self._known.values()}
        for name in wanted or ():
            if name not in names and name not in before:
                raise SourceError(
                    f"there is no stream {name}", hint=f"there are {', '.join(names) or 'none'}"
                )
        if wanted is None:
            wanted = tuple(name for name in names if not name.startswith(_INTERNAL))
        for name in wanted:
            for subject in self._options.subjects or ("",):
                split = f"{name}:{subject}" if subject else name
                properties = {"stream": name, "subject": subject}
                self._known[split] = Split(split, properties)
        return [self._known[name] for name in sorted(self._known)]

    def close(self) -> None:
        """Disconnect; a second call does nothing."""
        link, self._link = self._link, None
        if link is not None:
            link.close()

    async def _names(self) -> list[str]:
        assert self._link is not None  # noqa: S101 Who calls has one.
        manager = self._link.connection.jsm()
        names: list[str] = []
        for _ in range(_PAGES_MAX):
            page = await manager.streams_info(offset=len(names))
            names += [info.config.name for info in page]
            if len(page) < _PAGE:
                break
        return sorted(names)


def _link(options: NatsOptions) -> dict[str, Any]:
    return {"servers": options.servers, "options": options.connect}
