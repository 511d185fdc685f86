"""A store of ours that speaks just enough S3, and can be told not to look at conditions.

It counts puts as Google's does, and keeps conditions on these numbers when they come instead.
"""

from __future__ import annotations

import hashlib
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import parse_qs, unquote, urlsplit

__all__ = ["CarelessStore"]

DATE = "2026-01-01T00:00:00.000Z"
HTTP_DATE = "Thu, 01 Jan 2026 00:00:00 GMT"


class CarelessStore:
    """Objects in memory; ``faults`` names what it does wrong:

    ``create`` and ``update`` are conditions that it ignores, ``refuse`` has every update fail,
    ``make`` lets an update make an object, ``stale`` gives old objects, ``list`` shows none,
    ``untagged`` gives no e_tag, ``unchanged`` says that nothing ever changes, ``keep`` that no
    object may be deleted.
    """

    def __init__(self, *faults: str) -> None:
        self.faults = set(faults)
        self.objects: dict[str, bytes] = {}
        self.first: dict[str, bytes] = {}
        self.generations: dict[str, int] = {}
        self.lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def put(self, key: str, data: bytes, *, create: bool, tag: str | None) -> tuple[int, bytes]:
        with self.lock:
            there = self.objects.get(key)
            if create and there is not None and "create" not in self.faults:
                return 412, b""
            if tag is not None and "update" not in self.faults:
                matches = there is not None and _tag(there) == tag
                if there is None and "make" in self.faults:
                    matches = True
                if not matches or "refuse" in self.faults:
                    return 412, b""
            self.objects[key] = data
            self.generations[key] = sum(self.generations.values()) + 1
            self.first.setdefault(key, data)
            return 200, data

    def listing(self, prefix: str) -> bytes:
        with self.lock:
            shown = {} if "list" in self.faults else self.objects
            lines = [
                f"<Contents><Key>{key}</Key><LastModified>{DATE}</LastModified>"
                f"<ETag>{_tag(data)}</ETag><Size>{len(data)}</Size></Contents>"
                for key, data in shown.items()
                if key.startswith(prefix)
            ]
        lines.append("<IsTruncated>false</IsTruncated>")
        return f"<ListBucketResult>{''.join(lines)}</ListBucketResult>".encode()

    def delete(self, keys: list[str]) -> bytes:
        with self.lock:
            if "keep" in self.faults:
                kept = "<Code>AccessDenied</Code><Message>no</Message>"
                lines = [f"<Error><Key>{key}</Key>{kept}</Error>" for key in keys]
            else:
                lines = [f"<Deleted><Key>{key}</Key></Deleted>" for key in keys]
                for key in keys:
                    self.objects.pop(key, None)
        return f"<DeleteResult>{''.join(lines)}</DeleteResult>".encode()


def _tag(data: bytes) -> str:
    return f'"{hashlib.md5(data).hexdigest()}"'


def _handler(store: CarelessStore) -> type[BaseHTTPRequestHandler]:  # noqa: C901
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _key(self) -> str:
            return unquote(urlsplit(self.path).path).split("/", 2)[-1]

        def _conditions(self) -> tuple[bool, str | None]:
            """Say whether to create alone, and the tag of what to replace alone."""
            wanted = self.headers.get("x-goog-if-generation-match")
            if wanted is None:
                return self.headers.get("If-None-Match") == "*", self.headers.get("If-Match")
            with store.lock:
                there = store.objects.get(self._key())
                same = there is not None and store.generations[self._key()] == int(wanted)
            return wanted == "0", None if wanted == "0" else _tag(there) if same else "another"

        def _answer(self, status: int, body: bytes, *, tag: str = "") -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Last-Modified", HTTP_DATE)
            if tag and "untagged" not in store.faults:
                self.send_header("ETag", tag)
                self.send_header("x-goog-generation", str(store.generations[self._key()]))
            self.end_headers()
            self.wfile.write(body)

        def do_PUT(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            create, tag = self._conditions()
            status, body = store.put(self._key(), data, create=create, tag=tag)
            self._answer(status, b"", tag=_tag(body) if status == 200 else "")

        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query)
            if "list-type" in query:
                self._answer(200, store.listing(query.get("prefix", [""])[0]))
                return
            shown = store.first if "stale" in store.faults else store.objects
            data = shown.get(self._key())
            if data is None:
                self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            elif "unchanged" in store.faults and "If-None-Match" in self.headers:
                self._answer(304, b"", tag=_tag(data))
            else:
                self._answer(200, data, tag=_tag(data))

        def do_DELETE(self) -> None:
            there = self._key() in store.objects
            store.delete([self._key()])
            self._answer(204 if there else 404, b"" if there else b"<Code>NoSuchKey</Code>")

        def do_POST(self) -> None:
            asked = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self._answer(200, store.delete(re.findall("<Key>([^<]*)</Key>", asked.decode())))

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler
