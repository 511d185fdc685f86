"""Open the queue at an address, once its store is known to be fit for one."""

from __future__ import annotations

from collections.abc import Mapping

from quiver.ship.objects import open_bucket, probe
from quiver.ship.queue import Queue, QueueOptions

__all__ = ["open_queue"]


def open_queue(
    url: str,
    *,
    store: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    options: QueueOptions | None = None,
    probed: bool = True,
) -> Queue:
    """Open the queue at ``s3://BUCKET/PATH``, ``az://``, ``gs://``, or in a folder.

    ``store`` says how the store is reached, as ``region`` or ``endpoint``, and goes before what is
    found in ``environ``, such as ``AWS_ACCESS_KEY_ID``; the environment of the process is not
    looked at unless it is handed in. A store that ignores a condition of a put would lose entries,
    so unless ``probed`` is False it is tried with a few small objects first. Raises ConfigError,
    RemoteError.
    """
    bucket = open_bucket(url, options=store, environ=environ)
    if probed:
        probe(bucket)
    return Queue(bucket, options=options)
