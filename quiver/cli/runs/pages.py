"""The pages of a running pipeline: ``/healthz``, ``/readyz``, ``/status``, ``/metrics``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quiver.observe.sources import Watched
    from quiver.otel.pipeline.status import NodeStatus

__all__ = ["Face", "pages_open"]


class Face:
    """What pages are made of; ``watched`` is what the stores' own metrics are read from."""

    def __init__(
        self,
        *,
        not_ready: Callable[[], str],
        status: Callable[[], Sequence[NodeStatus]],
        watched: Callable[[], Sequence[Watched]],
    ) -> None:
        self.not_ready, self.status, self.watched = not_ready, status, watched


@contextmanager
def pages_open(address: str | None, face: Face) -> Iterator[str | None]:
    """Answer for the length of a block, if there is an address; gives the URL."""
    if address is None:
        yield None
        return
    from quiver.otel.pipeline.standard import Pages

    pages: dict[str, Callable[[], Any]] = {"/status": lambda: _status(face)}
    metrics = _metrics(face)
    if metrics is not None:
        pages["/metrics"] = metrics
    opened = Pages(address, face.not_ready, pages)
    try:
        yield opened.url
    finally:
        opened.close()


def _status(face: Face) -> Any:  # noqa: ANN401
    from quiver.otel.receivers import Page

    found: Mapping[str, Any] = {
        "not_ready": face.not_ready(),
        "nodes": [node.as_dict() for node in face.status()],
    }
    return Page(200, json.dumps(found).encode(), "application/json")


def _metrics(face: Face) -> Callable[[], Any] | None:
    """Make the page for Prometheus; None where its library is not installed."""
    try:
        from quiver.observe.nodes import exposed
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "prometheus_client":
            raise
        return None
    from quiver.otel.receivers import Page

    def page() -> Page:
        body, content_type = exposed(face.watched(), face.status())
        return Page(200, body, content_type)

    return page
