"""The nodes of a running pipeline in ``quiver top``: asked over HTTP, shown as text."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from top_kit import HOSTILE, core, look

from quiver.cli.live.board import Board
from quiver.cli.live.nodes import NodeAsker, NodeLook, Nodes
from quiver.cli.live.words import node_sheet
from quiver.errors import InputError

NODE = {"addresses": [], "gauges": {}, "histograms": {}, "problem": ""}
STATUS = {
    "not_ready": "",
    "nodes": [
        {
            **NODE,
            "name": "in",
            "role": "receiver",
            "kind": "otlp",
            "counts": {
                "quiver.receiver.items[logs]": 7,
                "quiver.receiver.items[traces]": 5,
                "quiver.receiver.requests[logs]": 1,
                "quiver.receiver.refused_requests[full]": 2,
            },
            "gauges": {"quiver.receiver.waiting_requests": 3},
        },
        {**NODE, "name": "keep", "role": "processor", "kind": "persistence", "counts": {}},
        {
            **NODE,
            "name": "out",
            "role": "exporter",
            "kind": "otap",
            "counts": {"quiver.exporter.sent_items[logs]": 4, "quiver.exporter.retried_batches": 9},
            "gauges": {"quiver.exporter.blocked": 1},
        },
    ],
}


@contextmanager
def page(body: bytes, status: int = 200):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/status" else 404)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ask(url: str) -> Nodes:
    asker = NodeAsker(url)
    try:
        return asker.ask()
    finally:
        asker.close()


def test_the_page_is_read() -> None:
    with page(json.dumps(STATUS).encode()) as url:
        found = ask(url)
    assert found == Nodes(
        (
            NodeLook("in", "receiver", "otlp", items=12, refused=2, waiting=3),
            NodeLook("keep", "processor", "persistence"),
            NodeLook("out", "exporter", "otap", items=4, retried=9, state="blocked"),
        )
    )


@pytest.mark.parametrize(
    "body, status, told",
    [
        (b"", 503, "answers 503"),
        (b"no json", 200, "is no pipeline"),
        (b"[]", 200, "is no pipeline"),
        (b'{"nodes": [{"name": 1}]}', 200, "is no pipeline"),
        (b"[" * 100_000, 200, "is no pipeline"),
    ],
)
def test_what_is_no_page_of_a_pipeline_is_told(body, status, told) -> None:
    with page(body, status) as url:
        assert told in (ask(url).problem or "")


def test_who_does_not_answer_is_told_and_what_is_no_address_refused() -> None:
    with page(b"") as url:
        pass
    assert "does not answer" in (ask(url).problem or "")
    with pytest.raises(InputError, match="no URL"):
        NodeAsker("ftp://host")


def test_nodes_are_rows_with_rates_but_for_stores() -> None:
    board = Board("store", interval_ns=1)
    assert node_sheet(board) is None
    board.take(look(core()))
    assert node_sheet(board) is None
    for at, items in ((1, 10), (3, 30)):
        nodes = [
            NodeLook("in", "receiver", "otlp", items=items),
            NodeLook("keep", "processor", "persistence"),
            NodeLook(HOSTILE, "exporter", "otap", items=1, state=HOSTILE),
        ]
        board.take(look(core(), at=at, nodes=Nodes(tuple(nodes))))
    sheet = node_sheet(board)
    assert sheet is not None
    first, second = sheet.rows
    assert first.cells == ("in", "otlp receiver", "10", "30", "0", "0", "0", "")
    assert (first.is_alarming, second.is_alarming) == (False, True)
    assert all(cell.isprintable() for cell in second.cells)


def test_once_shows_them_and_tells_if_nobody_answers(run, store) -> None:
    with page(json.dumps(STATUS).encode()) as url:
        found = run("top", store, "--once", "--interval", "100ms", "--pipeline", url)
    assert found.code == 0, found.err
    assert "otap exporter" in found.out
    assert "blocked" in found.out
    found = run("top", store, "--once", "--interval", "100ms", "--pipeline", url)
    assert (found.code, "does not answer" in found.err) == (7, True)
